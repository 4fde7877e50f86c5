//! The methods that a reader meets first: each of them has an example that runs.

use std::path::Path;

use anyhow::{Context, Result};
use syn::{Attribute, Expr, ImplItem, ImplItemFn, Item, Lit, Meta, Type, Visibility};

use crate::workspace;

/// Folders of sources, each with the types whose public methods have examples; an empty list stands for all types.
const TYPES: &[(&str, &[&str])] = &[
    ("tiled/src/", &["TiledCopy", "TiledMma"]),
    ("gpu/tensor/src/", &[]),
    ("gpu/device/src/", &["Device", "Buffer", "View", "ViewMut"]),
];

/// How many methods there are, and those that have no example.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Coverage {
    pub(super) methods: usize,
    pub(super) complaints: Vec<String>,
}

/// Looks for public methods of these types without an example in their documentation.
pub(super) fn missing(root: &Path) -> Result<Coverage> {
    let mut found = Coverage::default();
    for path in workspace::files(root, ".rs")? {
        let shown = workspace::shown(root, &path);
        let Some((_, types)) = TYPES.iter().find(|(folder, _)| shown.starts_with(folder)) else {
            continue;
        };
        let text = workspace::read(&path)?;
        search(&text, &shown, types, &mut found)?;
    }
    Ok(found)
}

fn search(text: &str, shown: &str, types: &[&str], found: &mut Coverage) -> Result<()> {
    let file = syn::parse_file(text).with_context(|| format!("{shown} is not Rust"))?;
    for item in &file.items {
        let Item::Impl(of) = item else {
            continue;
        };
        let name = match (&of.trait_, &*of.self_ty) {
            (None, Type::Path(path)) => {
                path.path.segments.last().map(|last| last.ident.to_string())
            }
            _ => None,
        };
        let Some(name) = name.filter(|name| types.is_empty() || types.contains(&&name[..])) else {
            continue;
        };
        for method in of.items.iter().filter_map(public) {
            found.methods += 1;
            let doc = documentation(&method.attrs);
            if !doc.contains("```") {
                let line = method.sig.ident.span().start().line;
                let method = &method.sig.ident;
                found.complaints.push(format!(
                    "{shown}:{line}: `{name}::{method}` has no example that runs"
                ));
            }
        }
    }
    Ok(())
}

/// A method that the documentation shows.
fn public(item: &ImplItem) -> Option<&ImplItemFn> {
    let ImplItem::Fn(method) = item else {
        return None;
    };
    let is_hidden = |attribute: &Attribute| {
        attribute.path().is_ident("doc")
            && matches!(&attribute.meta, Meta::List(list) if list.tokens.to_string() == "hidden")
    };
    let is_shown =
        matches!(method.vis, Visibility::Public(_)) && !method.attrs.iter().any(is_hidden);
    is_shown.then_some(method)
}

/// The text of the documentation comment.
fn documentation(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| {
        let Meta::NameValue(meta) = &attribute.meta else {
            return None;
        };
        match &meta.value {
            Expr::Lit(value) if meta.path.is_ident("doc") => match &value.lit {
                Lit::Str(line) => Some(line.value()),
                _ => None,
            },
            _ => None,
        }
    });
    lines.collect::<Vec<String>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_method_without_an_example_is_found() {
        let text = "
            impl Device {
                /// Returns it.
                ///
                /// ```
                /// ```
                pub fn shown(&self) {}
                /// Returns it.
                pub fn bare(&self) {}
                pub fn undocumented(&self) {}
                /// Private.
                fn private(&self) {}
                #[doc(hidden)]
                pub fn hidden(&self) {}
            }
            impl Clone for Device { fn clone(&self) -> Self { Device } }
            impl<T> Buffer<T> { pub(crate) fn inner(&self) {} }
            impl Other { pub fn bare(&self) {} }
        ";
        let mut found = Coverage::default();
        search(text, "a.rs", &["Device", "Buffer"], &mut found).unwrap();
        let complaints = [
            "a.rs:9: `Device::bare` has no example that runs",
            "a.rs:10: `Device::undocumented` has no example that runs",
        ];
        assert_eq!(found.complaints, complaints);
        assert_eq!(found.methods, 3);
        let mut found = Coverage::default();
        search(text, "a.rs", &[], &mut found).unwrap();
        assert_eq!(found.complaints.len(), 3);
    }
}
