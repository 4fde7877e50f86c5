//! `View`: a buffer seen through a layout.

use core::marker::PhantomData;

use colex_layout::{Layout, Stride};

use crate::elements::Elements;
use crate::kernel_error::KernelError;
use colex_device::Device;
use colex_device::Element;

/// A buffer seen through a layout: the element at coordinate `c` is element `layout(c)` of the buffer.
///
/// ```
/// use colex_gpu::Device;
/// use colex_gpu::kernels::View;
///
/// let device = Device::open();
/// let buffer = device.zeros::<f32>(12)?;
/// let matrix = View::new(&buffer, "(3,4):(4,1)".parse()?)?;
/// assert_eq!(matrix.permute(&[1, 0])?.layout().to_string(), "(4,3):(1,4)");
///
/// let error = View::new(&buffer, "(4,4):(4,1)".parse()?).unwrap_err();
/// assert_eq!(error.to_string(), "(4,4):(4,1) reaches element 15, and the buffer has elements 0 to 11");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct View<'a, T> {
    device: Device,
    address: u64,
    layout: Layout,
    reach: i64,
    writable: bool,
    elements: PhantomData<&'a T>,
}

impl<'a, T: Element> View<'a, T> {
    /// A buffer, or a slice of `cudarc` that was lent to a device, seen through that layout.
    ///
    /// # Errors
    ///
    /// [`KernelError::Strides`] for strides that are coordinates or XORs, [`KernelError::Outside`] for a layout that
    /// leaves the buffer, [`KernelError::Misaligned`] for a buffer that does not begin at an element.
    pub fn new(elements: &'a impl Elements<T>, layout: Layout) -> Result<Self, KernelError> {
        let (address, length, need) = (elements.address(), elements.count(), T::BYTES as u64);
        if !address.is_multiple_of(need) {
            return Err(KernelError::Misaligned {
                what: "the buffer",
                address,
                need,
            });
        }
        let (least, reach) = range(&layout)?;
        let outside = |element| KernelError::Outside {
            layout: layout.to_string(),
            element,
            length,
        };
        if least < 0 {
            return Err(outside(least));
        }
        if reach >= length as i64 {
            return Err(outside(reach));
        }
        Ok(View {
            device: elements.device().clone(),
            address,
            layout,
            reach,
            writable: elements.is_writable(),
            elements: PhantomData,
        })
    }

    /// The device that holds it.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Whether a kernel may write it.
    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// The first byte it may touch, and the one past its last.
    pub fn bytes(&self) -> (u64, u64) {
        let first = self.address;
        (first, first + (self.reach as u64 + 1) * T::BYTES as u64)
    }

    /// The same elements with the modes in another order: mode `i` is what was mode `order[i]`.
    ///
    /// # Errors
    ///
    /// [`KernelError::Permutation`].
    #[doc(alias = "transpose")]
    pub fn permute(&self, order: &[usize]) -> Result<View<'a, T>, KernelError> {
        let rank = self.layout.rank();
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..rank) {
            return Err(KernelError::Permutation {
                given: order.to_vec(),
                rank,
            });
        }
        let layout = self.layout.select(order);
        Ok(View {
            layout: layout.expect("the order names modes, and one permutation keeps the size"),
            ..self.clone()
        })
    }
}

/// The least and the greatest offset of a layout of integer strides.
fn range(layout: &Layout) -> Result<(i64, i64), KernelError> {
    let strides = || KernelError::Strides {
        layout: layout.to_string(),
    };
    let (mut least, mut greatest) = (0_i64, 0_i64);
    for leaf in layout.leaves() {
        let Stride::Int(stride) = leaf.stride else {
            return Err(strides());
        };
        let far = (leaf.extent.value() - 1)
            .checked_mul(stride.value())
            .ok_or_else(strides)?;
        let end = if far < 0 { &mut least } else { &mut greatest };
        *end = end.checked_add(far).ok_or_else(strides)?;
    }
    Ok((least, greatest))
}
