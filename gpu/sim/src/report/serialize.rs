//! Feature `serde`: a fault as data.

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::fault::{Fault, Place};

/// `kind`, `sentence`, `rank` (null on one device), `block`, `thread`, `warp` (whether the place is a whole warp), `instruction`, `file`, `line` and
/// `column`. A fault that no thread caused has no place: those fields are null.
///
/// ```
/// use colex_atom::Arch;
/// use colex_ir::launch::{Argument, Launch};
/// use colex_ir::{Access, KernelBuilder, Space, Type};
/// use colex_sim::{Memory, SimOptions, simulate};
///
/// let mut k = KernelBuilder::new("stray", Arch::Sm80);
/// let data = k.pointer("data");
/// let address = k.param(data);
/// k.store(Access::new(Space::Global, Type::U32), address, 7);
/// let launch = Launch::new(1, 1);
/// let fault = simulate(&k.finish(), &launch, &[Argument::Pointer(64)], &mut Memory::default(), &SimOptions::default())
///     .unwrap_err();
/// let data = serde_json::to_value(&fault)?;
/// assert_eq!(data["kind"], "out_of_bounds");
/// assert_eq!(data["sentence"], "4 bytes at 0x40 are in no allocation, and the first begins above");
/// assert_eq!(data["thread"], serde_json::json!([0, 0, 0]));
/// assert_eq!(data["instruction"], "st.global.u32 [%rd0], 7");
/// assert!(data["line"].is_u64());
/// # Ok::<(), serde_json::Error>(())
/// ```
impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let place = self.place();
        let mut fields = to.serialize_struct("Fault", 10)?;
        fields.serialize_field("kind", &self.kind())?;
        fields.serialize_field("sentence", self.what())?;
        fields.serialize_field("rank", &place.and_then(|place| place.rank))?;
        fields.serialize_field("block", &place.map(|place| place.block))?;
        fields.serialize_field("thread", &place.map(|place| place.thread))?;
        fields.serialize_field("warp", &place.map(|place| place.warp))?;
        fields.serialize_field("instruction", &place.map(|place| &place.instruction))?;
        fields.serialize_field("file", &place.map(|place| place.at.file()))?;
        fields.serialize_field("line", &place.map(|place| place.at.line()))?;
        fields.serialize_field("column", &place.map(|place| place.at.column()))?;
        fields.end()
    }
}

/// `rank`, `block`, `thread`, `warp`, `instruction`, `file`, `line` and `column`.
impl Serialize for Place {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut fields = to.serialize_struct("Place", 8)?;
        fields.serialize_field("rank", &self.rank)?;
        fields.serialize_field("block", &self.block)?;
        fields.serialize_field("thread", &self.thread)?;
        fields.serialize_field("warp", &self.warp)?;
        fields.serialize_field("instruction", &self.instruction)?;
        fields.serialize_field("file", self.at.file())?;
        fields.serialize_field("line", &self.at.line())?;
        fields.serialize_field("column", &self.at.column())?;
        fields.end()
    }
}
