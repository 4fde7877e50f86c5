//! From PTX to machine code by the driver's assembler, with its log.
//!
//! The linker gives the machine code, which the disk cache keeps. It assembles a text for a program of several texts, and there
//! ptxas ignores `setmaxnreg` (C7504): the consumers of a Hopper kernel keep the registers of the launch, spill, and their `wgmma`
//! run one after the other (C7512). So a text with that instruction is loaded as a whole module.

use std::ffi::{CString, c_char, c_uint, c_void};
use std::iter;

use super::api::{Handle, StatusCode};
use super::driver::OUT_OF_MEMORY;
use super::gpu::Gpu;
use super::sys::{JitInput, JitOption};
use crate::error::{Error, ErrorKind};
use crate::signature;

/// Machine code, and the assembler's remarks on it.
pub(super) struct Cubin {
    pub(super) bytes: Vec<u8>,
    pub(super) log: String,
}

/// The bytes of each of the two logs; what does not fit is cut off.
const LOG_BYTES: usize = 64 << 10;

/// The options of a call and the buffers that they point to.
struct Options {
    keys: Vec<c_uint>,
    values: Vec<*mut c_void>,
    info: Vec<u8>,
    errors: Vec<u8>,
}

impl Options {
    /// Logs, as detailed as the assembler can, and source lines if the text names some.
    fn new(ptx: &str) -> Options {
        let mut options = Options {
            keys: Vec::new(),
            values: Vec::new(),
            info: vec![0; LOG_BYTES],
            errors: vec![0; LOG_BYTES],
        };
        let (info, errors) = (options.info.as_mut_ptr(), options.errors.as_mut_ptr());
        options.push(JitOption::InfoLog, info.cast());
        options.number(JitOption::InfoLogBytes, LOG_BYTES);
        options.push(JitOption::ErrorLog, errors.cast());
        options.number(JitOption::ErrorLogBytes, LOG_BYTES);
        options.number(JitOption::Verbose, 1);
        if names_lines(ptx) {
            options.number(JitOption::LineInfo, 1);
        }
        options
    }

    /// The same for the linker, which must be told of a target (see [`target_code`]) that is not the context's.
    fn of_link(ptx: &str) -> Options {
        let mut options = Options::new(ptx);
        if let Some(code) = target_code(ptx) {
            options.number(JitOption::Target, code);
        }
        options
    }

    fn push(&mut self, key: JitOption, value: *mut c_void) {
        self.keys.push(key as c_uint);
        self.values.push(value);
    }

    /// Numbers travel in the place of the pointer.
    fn number(&mut self, key: JitOption, value: usize) {
        self.push(key, std::ptr::without_provenance_mut(value));
    }

    fn count(&self) -> c_uint {
        self.keys.len() as c_uint
    }
}

/// A log up to its first NUL.
fn text(log: &[u8]) -> String {
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).trim().to_string()
}

/// The driver's number for an architecture-specific target (`sm_90a`): code for the context's device would be that of
/// the plain one.
fn target_code(ptx: &str) -> Option<usize> {
    let target = signature::target(ptx)?;
    let number = target.strip_prefix("sm_")?.strip_suffix('a')?;
    Some(number.parse::<usize>().ok()? + 0x10000)
}

/// Whether a text says of its instructions which source lines they come from.
fn names_lines(ptx: &str) -> bool {
    begun_lines(ptx, ".loc ").any(|begun| begun.trim_start().is_empty())
}

/// The lines in which a word stands, each from its begin to the first such word. Most texts have no such line, which `contains` finds out
/// an order of magnitude faster than a look at each line.
fn begun_lines<'a>(ptx: &'a str, word: &'static str) -> impl Iterator<Item = &'a str> {
    let mut rest = if ptx.contains(word) { ptx } else { "" };
    iter::from_fn(move || {
        let at = rest.find(word)?;
        let begin = rest[..at].rfind('\n').map_or(0, |end| end + 1);
        let begun = &rest[begin..at];
        rest = rest[at..].find('\n').map_or("", |end| &rest[at + end..]);
        Some(begun)
    })
}

/// Whether a text must be loaded as a whole module: see the head of this file.
pub(super) fn sets_registers(ptx: &str) -> bool {
    begun_lines(ptx, "setmaxnreg.").any(|begun| !begun.contains("//"))
}

impl Gpu {
    /// Assembles PTX for this device.
    ///
    /// # Errors
    ///
    /// Returns an error with the log.
    pub(super) fn assemble(&self, ptx: &str) -> Result<Cubin, Error> {
        let source = self.terminated(ptx)?;
        let mut options = Options::of_link(ptx);
        let mut link: Handle = std::ptr::null_mut();
        self.call("cuLinkCreate", |api| {
            // SAFETY: as many keys as values; the buffers they name live until after the link is destroyed.
            unsafe {
                (api.link_create)(
                    options.count(),
                    options.keys.as_mut_ptr(),
                    options.values.as_mut_ptr(),
                    &mut link,
                )
            }
        })?;
        let linked = self.link(link, &source);
        let destroyed = self.call("cuLinkDestroy", |api| {
            // SAFETY: the handle came from `cuLinkCreate`, and is not used again.
            unsafe { (api.link_destroy)(link) }
        });
        match linked {
            Ok(bytes) => destroyed.map(|()| Cubin {
                bytes,
                log: text(&options.info),
            }),
            Err(error) => Err(self.with_log(error, &options.errors)),
        }
    }

    /// The steps between the link's creation and its end.
    fn link(&self, link: Handle, source: &CString) -> Result<Vec<u8>, Error> {
        let name = c"kernel.ptx";
        self.call("cuLinkAddData", |api| {
            let data = source.as_ptr().cast_mut().cast::<c_void>();
            // SAFETY: the text ends in NUL, its length counts that, and the driver does not change it; no options.
            unsafe {
                let none = std::ptr::null_mut();
                (api.link_add_data)(
                    link,
                    JitInput::Ptx as c_uint,
                    data,
                    source.as_bytes_with_nul().len(),
                    name.as_ptr(),
                    0,
                    none,
                    none.cast(),
                )
            }
        })?;
        let (mut code, mut length) = (std::ptr::null_mut(), 0);
        self.call("cuLinkComplete", |api| {
            // SAFETY: stores the address and length of memory that the link owns.
            unsafe { (api.link_complete)(link, &mut code, &mut length) }
        })?;
        // SAFETY: the link still lives, and with it the `length` bytes.
        Ok(unsafe { std::slice::from_raw_parts(code.cast::<u8>(), length) }.to_vec())
    }

    /// Assembles PTX and loads it onto the device as a whole module. Returns the module and the log.
    ///
    /// # Errors
    ///
    /// Returns an error with the log.
    pub(super) fn load_text(&self, ptx: &str) -> Result<(Handle, String), Error> {
        let source = self.terminated(ptx)?;
        let mut options = Options::new(ptx);
        // SAFETY: the text ends in NUL.
        let module = unsafe { self.load_image(source.as_ptr().cast(), &mut options) }?;
        Ok((module, text(&options.info)))
    }

    /// Loads machine code onto the device.
    pub(super) fn load_code(&self, code: &[u8]) -> Result<Handle, Error> {
        // SAFETY: an ELF file says its own length.
        unsafe { self.load_image(code.as_ptr().cast(), &mut Options::new("")) }
    }

    /// Loads an image onto the device.
    ///
    /// # Safety
    ///
    /// The image is a text that ends in NUL, or a file that says its own length.
    unsafe fn load_image(
        &self,
        image: *const c_void,
        options: &mut Options,
    ) -> Result<Handle, Error> {
        let mut module: Handle = std::ptr::null_mut();
        let loaded = self.call("cuModuleLoadDataEx", |api| {
            // SAFETY: the caller says what the image is; keys and values as in `assemble`.
            unsafe {
                (api.module_load_data)(
                    &mut module,
                    image,
                    options.count(),
                    options.keys.as_mut_ptr(),
                    options.values.as_mut_ptr(),
                )
            }
        });
        loaded
            .map(|()| module)
            .map_err(|error| self.with_log(error, &options.errors))
    }

    /// A text as the driver reads it.
    fn terminated(&self, ptx: &str) -> Result<CString, Error> {
        CString::new(ptx).map_err(|nul| {
            self.refused_text(format!(
                "there is a NUL character at byte {}",
                nul.nul_position()
            ))
        })
    }

    /// The entry of a module.
    pub(super) fn entry(&self, module: Handle, entry: &str) -> Result<Handle, Error> {
        let name = CString::new(entry)
            .map_err(|_| self.refused_text(format!("`{entry:?}` is no name")))?;
        let mut function: Handle = std::ptr::null_mut();
        self.call("cuModuleGetFunction", |api| {
            let name: *const c_char = name.as_ptr();
            // SAFETY: stores one handle; the name ends in NUL.
            unsafe { (api.module_get_function)(&mut function, module, name) }
        })?;
        Ok(function)
    }

    /// An error with the assembler's log, if the assembler refused the text. The others stay: a load may fail for lack of memory.
    fn with_log(&self, error: Error, log: &[u8]) -> Error {
        let ErrorKind::Driver {
            code,
            name,
            text: said,
            ..
        } = error.kind()
        else {
            return error;
        };
        let log = text(log);
        match (is_refusal(*code), log.is_empty()) {
            (_, false) if *code != OUT_OF_MEMORY => self.refused_text(log),
            (true, _) => self.refused_text(format!("{name}, {said}")),
            (false, _) => error,
        }
    }

    fn refused_text(&self, log: String) -> Error {
        ErrorKind::Assembly {
            device: self.name().to_string(),
            log,
        }
        .into()
    }
}

/// Whether a code says that the text or the machine code is refused: `CUDA_ERROR_INVALID_IMAGE`, `NO_BINARY_FOR_GPU`, `INVALID_PTX`,
/// `JIT_COMPILER_NOT_FOUND`, `UNSUPPORTED_PTX_VERSION`, `JIT_COMPILATION_DISABLED`.
fn is_refusal(code: StatusCode) -> bool {
    matches!(code, 200 | 209 | 218 | 221..=223)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specific_targets_are_named_to_the_linker() {
        assert_eq!(target_code(".version 8.0\n.target sm_90a\n"), Some(65626));
        assert_eq!(target_code(".version 8.0\n.target sm_90\n"), None);
        assert_eq!(target_code(""), None);
    }

    #[test]
    fn texts_that_set_registers_are_found() {
        let text = |line: &str| format!(".version 8.0\n.target sm_90a\n{line}\n");
        assert!(sets_registers(&text(
            "    setmaxnreg.inc.sync.aligned.u32 240;"
        )));
        assert!(!sets_registers(&text(
            "    // setmaxnreg.inc.sync.aligned.u32 240;"
        )));
        assert!(!sets_registers(""));
        // A line whose comment names it twice, and the next one.
        let line = "    // setmaxnreg.dec, setmaxnreg.inc";
        assert!(!sets_registers(&text(line)));
        let line = format!("{line}\n    setmaxnreg.dec.sync.aligned.u32 24; // setmaxnreg.inc");
        assert!(sets_registers(&text(&line)));
    }

    #[test]
    fn source_lines_are_asked_for_where_a_text_names_them() {
        let options = |ptx: &str| {
            Options::new(ptx)
                .keys
                .contains(&(JitOption::LineInfo as c_uint))
        };
        assert!(options(".target sm_80\n    .loc 1 12 9\n"));
        assert!(!options(".target sm_80\n// .loc 1 12 9\n"));
    }

    #[test]
    fn a_log_ends_at_its_first_nul() {
        assert_eq!(text(b"ptxas info\n\0\0rest"), "ptxas info");
        assert_eq!(text(b"full"), "full");
    }
}
