//! Feature `serde`: errors as data.

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::Error;

/// `sentence`, `kind` and `diagnostics`.
///
/// `kind` is `fault`, `refused`, `launch`, `assembly`, `no_gpu`, `out_of_memory`, `context_lost`, `unsupported` or `other`.
/// `diagnostics` holds the [fault](Error::fault), or the verifier's [findings](Error::refused), each with its sentence,
/// file and line; otherwise it is empty.
///
/// ```
/// use colex_atom::Arch;
/// use colex_device::Device;
///
/// let error = Device::simulator(Arch::Sm80).zeros::<f32>(4)?.slice(2..9).unwrap_err();
/// let data = serde_json::to_value(&error).unwrap();
/// assert_eq!(data["kind"], "other");
/// assert_eq!(data["sentence"], error.to_string());
/// # Ok::<(), colex_device::Error>(())
/// ```
impl Serialize for Error {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let kinds = [
            ("fault", self.fault().is_some()),
            ("refused", self.refused().is_some()),
            ("launch", self.launch().is_some()),
            ("assembly", self.assembler_log().is_some()),
            ("no_gpu", self.is_no_gpu()),
            ("out_of_memory", self.is_out_of_memory()),
            ("context_lost", self.is_context_lost()),
            ("unsupported", self.is_unsupported()),
        ];
        let kind = kinds.iter().find(|(_, is_it)| *is_it);
        let mut fields = to.serialize_struct("Error", 3)?;
        fields.serialize_field("sentence", &self.to_string())?;
        fields.serialize_field("kind", kind.map_or("other", |(kind, _)| kind))?;
        match (self.fault(), self.refused()) {
            (Some(fault), _) => fields.serialize_field("diagnostics", &[fault])?,
            (None, Some(refused)) => {
                fields.serialize_field("diagnostics", refused.diagnostics())?;
            }
            (None, None) => fields.serialize_field("diagnostics", &[(); 0])?,
        }
        fields.end()
    }
}
