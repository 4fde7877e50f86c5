//! The ways in which a tensor copy is swept.

use std::fmt;

use colex_atom::{
    CopyAtom, Interleave, OobFill, Reduction, Space, TensorMap, TmaElement, TmaSwizzle,
};

use super::{is_im2col, is_multicast, reduction, rows};
use crate::sweep::engine::from_shared;

/// The pixels along W of a box of interleaved channels: the driver takes multiples of 16 bytes, even of 1-byte elements.
const PIXELS: i64 = 16;

/// One way in which a tensor copy is swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TmaForm {
    /// How shared memory is permuted.
    pub swizzle: TmaSwizzle,
    /// The element type; all if there is none.
    pub element: Option<TmaElement>,
    /// Whether the copy has a cache policy.
    pub hinted: bool,
    /// What is special to the tensor maps.
    pub variant: TmaVariant,
}

/// What is special to the tensor maps of a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TmaVariant {
    /// Nothing.
    #[default]
    Plain,
    /// NaNs stand for what is outside: floats only.
    Nan,
    /// Element strides: every second or third element along the outer dimensions.
    Strided,
    /// Channels in slices.
    Interleaved(Interleave),
}

/// Nothing for a plain one, else `, filled with NaN` and the like.
impl fmt::Display for TmaVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TmaVariant::Plain => Ok(()),
            TmaVariant::Nan => f.write_str(", filled with NaN"),
            TmaVariant::Strided => f.write_str(", every second or third element"),
            TmaVariant::Interleaved(by) => {
                write!(f, ", channels in slices of {} bytes", by.bytes())
            }
        }
    }
}

impl fmt::Display for TmaForm {
    /// `of F32, swizzle B128, filled with NaN`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(element) = self.element {
            write!(f, " of {element:?}")?;
        }
        write!(f, ", swizzle {:?}", self.swizzle)?;
        self.variant.fmt(f)?;
        f.write_str(if self.hinted {
            " with a cache policy"
        } else {
            ""
        })
    }
}

impl TmaForm {
    /// The bytes of a row of a box: the slices of as many pixels as every element type allows, or as many as the swizzle
    /// allows.
    pub(in crate::sweep) fn row_bytes(&self) -> i64 {
        match self.variant {
            TmaVariant::Interleaved(by) => PIXELS * by.bytes(),
            TmaVariant::Plain | TmaVariant::Nan | TmaVariant::Strided => {
                self.swizzle.span().unwrap_or(96)
            }
        }
    }

    /// Whether tensors of this type are swept in it.
    pub(in crate::sweep) fn has(&self, element: TmaElement) -> bool {
        let floats_only = self.variant == TmaVariant::Nan;
        self.element.is_none_or(|only| only == element) && (element.is_float() || !floats_only)
    }

    /// A plain map made special.
    pub(in crate::sweep) fn vary(&self, mut map: TensorMap) -> TensorMap {
        match self.variant {
            TmaVariant::Plain => {}
            TmaVariant::Nan => map.fill = OobFill::NanRequestZeroFma,
            TmaVariant::Strided => {
                let row = map.extents[0] * map.element.bytes();
                for d in 1..map.rank() {
                    let (step, count) = ([2, 3, 2, 2][d - 1], map.extents[d]);
                    map.element_strides[d] = step;
                    // As many elements, whether the box ends with a whole step or with the last element.
                    map.extents[d] = count * step - if d % 2 == 0 { step - 1 } else { 0 };
                    map.dims[d] = map.extents[d] + 1;
                }
                map.strides = rows(&map.dims, row);
            }
            TmaVariant::Interleaved(by) => {
                map.interleave = by;
                // Pixels along W, three slices of channels, and rows that end one slice before the next begins.
                map.extents[0] = PIXELS;
                map.dims[0] = 2 * PIXELS - 1;
                let slices = map.rank() - 2;
                map.dims[slices] = 3;
                let mut stride = 2 * PIXELS * by.bytes();
                for d in 1..map.rank() {
                    map.strides[d - 1] = stride;
                    stride *= map.dims[d];
                }
            }
        }
        map
    }
}

/// The special forms in which a copy is swept: loads with NaN outside, boxes with element strides, and tiled loads and
/// stores of interleaved channels.
pub(in crate::sweep) fn variants(atom: &CopyAtom) -> Vec<TmaForm> {
    let rank = atom.tensor_rank().unwrap_or(1);
    let (loads, plain) = (!from_shared(atom), reduction(atom).is_none());
    let tiled = !is_im2col(atom);
    let form = |swizzle, variant| TmaForm {
        swizzle,
        element: reduction(atom).map(|_| TmaElement::U32),
        hinted: false,
        variant,
    };
    let mut forms = Vec::new();
    if atom.to() == Space::L2 || is_multicast(atom) {
        return forms;
    }
    if loads {
        let swizzles = [TmaSwizzle::None, TmaSwizzle::B128];
        forms.extend(swizzles.map(|swizzle| form(swizzle, TmaVariant::Nan)));
    }
    let adds = reduction(atom).is_none_or(|op| op == Reduction::Add);
    if tiled && rank > 1 && adds {
        let swizzles = [TmaSwizzle::None, TmaSwizzle::B64];
        forms.extend(swizzles.map(|swizzle| form(swizzle, TmaVariant::Strided)));
    }
    if tiled && rank > 2 && plain {
        for (by, swizzle) in [
            (Interleave::B16, TmaSwizzle::None),
            (Interleave::B32, TmaSwizzle::B32),
        ] {
            forms.push(form(swizzle, TmaVariant::Interleaved(by)));
        }
    }
    forms
}
