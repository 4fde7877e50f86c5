//! The modules of a crate: what each defines and re-exports, and which paths it names, read from the source.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use syn::ext::IdentExt;
use syn::visit::{self, Visit};
use syn::{Attribute, Ident, Item, UseTree};

use crate::workspace;

/// A crate's modules; the first is its root.
#[derive(Default)]
pub(super) struct Source {
    pub(super) modules: Vec<Module>,
}

/// One module, in a file of its own or inline.
pub(super) struct Module {
    pub(super) file: PathBuf,
    /// The folder of `src` that holds it, or the file beside the folders; none for the root.
    pub(super) folder: Option<String>,
    pub(super) parent: Option<usize>,
    /// What can be named in it. A module and a function may have the same name.
    pub(super) names: BTreeMap<String, Vec<Name>>,
    /// The paths in front of `::*`.
    pub(super) globs: Vec<Vec<String>>,
    /// Every path that it names.
    pub(super) imports: Vec<Import>,
}

/// What a name stands for.
pub(super) enum Name {
    Module(usize),
    Item,
    /// A `use`, with its path.
    Import(Vec<String>),
}

/// A path of at least two segments, in a `use`, a type or an expression.
pub(super) struct Import {
    pub(super) path: Vec<String>,
    pub(super) line: usize,
    pub(super) is_use: bool,
}

/// Where a module's items come from.
struct Place {
    file: PathBuf,
    /// The folder in which the files of its child modules lie.
    children: PathBuf,
    folder: Option<String>,
    parent: Option<usize>,
}

impl Source {
    /// Reads the crate whose root is `file`, and every module that it declares, but those of its tests.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be read or is not Rust, or if a module has no file.
    pub(super) fn read(file: &Path) -> Result<Source> {
        let mut source = Source::default();
        source.add_file(Place {
            file: file.to_path_buf(),
            children: file.parent().unwrap_or(Path::new("")).to_path_buf(),
            folder: None,
            parent: None,
        })?;
        Ok(source)
    }

    fn add_file(&mut self, place: Place) -> Result<usize> {
        let text = workspace::read(&place.file)?;
        let parsed = syn::parse_file(&text)
            .with_context(|| format!("{} is not Rust", place.file.display()))?;
        self.add_module(place, &parsed.items)
    }

    fn add_module(&mut self, place: Place, items: &[Item]) -> Result<usize> {
        let id = self.modules.len();
        let mut imports = Imports::default();
        let mut names: BTreeMap<String, Vec<Name>> = BTreeMap::new();
        let mut globs = Vec::new();
        self.modules.push(Module {
            file: place.file.clone(),
            folder: place.folder.clone(),
            parent: place.parent,
            names: BTreeMap::new(),
            globs: Vec::new(),
            imports: Vec::new(),
        });
        for item in items.iter().filter(|item| !is_of_tests(attributes(item))) {
            imports.visit_item(item);
            match item {
                Item::Mod(module) => {
                    let child = self.add_child(id, &place, module)?;
                    names
                        .entry(text(&module.ident))
                        .or_default()
                        .push(Name::Module(child));
                }
                Item::Use(item) => {
                    for leaf in leaves(&item.tree) {
                        match leaf.name {
                            Some(name) => {
                                names.entry(name).or_default().push(Name::Import(leaf.path))
                            }
                            None => globs.push(leaf.path),
                        }
                    }
                }
                Item::ExternCrate(item) => {
                    let own = item.ident == "self";
                    let path = vec![if own {
                        "crate".into()
                    } else {
                        text(&item.ident)
                    }];
                    let name = item.rename.as_ref().map_or(&item.ident, |(_, name)| name);
                    names
                        .entry(text(name))
                        .or_default()
                        .push(Name::Import(path));
                }
                _ => {
                    if let Some(name) = defined(item) {
                        names.entry(text(name)).or_default().push(Name::Item);
                    }
                }
            }
        }
        let module = &mut self.modules[id];
        (module.names, module.globs, module.imports) = (names, globs, imports.found);
        Ok(id)
    }

    fn add_child(&mut self, parent: usize, place: &Place, module: &syn::ItemMod) -> Result<usize> {
        let name = text(&module.ident);
        let children = place.children.join(&name);
        let is_of_root = place.parent.is_none() && module.content.is_none();
        let folder = if is_of_root {
            Some(name.clone())
        } else {
            place.folder.clone()
        };
        let place = |file| Place {
            file,
            children: children.clone(),
            folder,
            parent: Some(parent),
        };
        if let Some((_, items)) = &module.content {
            return self.add_module(place(self.modules[parent].file.clone()), items);
        }
        if let Some(path) = module.attrs.iter().find_map(path_of) {
            // Beside the file that declares it, under any name of its module.
            let file = self.modules[parent].file.with_file_name(path);
            let children = file.parent().unwrap_or(Path::new("")).to_path_buf();
            return self.add_file(Place {
                children,
                ..place(file)
            });
        }
        let files = [children.with_extension("rs"), children.join("mod.rs")];
        match files.iter().find(|file| file.is_file()) {
            Some(file) => self.add_file(place(file.clone())),
            None => bail!(
                "{} declares `mod {name}`, which has no file",
                self.modules[parent].file.display()
            ),
        }
    }
}

fn text(ident: &Ident) -> String {
    ident.unraw().to_string()
}

/// The file that `#[path = "FILE"]` names.
fn path_of(attribute: &Attribute) -> Option<String> {
    let syn::Meta::NameValue(meta) = &attribute.meta else {
        return None;
    };
    match &meta.value {
        syn::Expr::Lit(value) if meta.path.is_ident("path") => match &value.lit {
            syn::Lit::Str(file) => Some(file.value()),
            _ => None,
        },
        _ => None,
    }
}

/// Tests may look upwards, as dev-dependencies may.
fn is_of_tests(attributes: &[Attribute]) -> bool {
    let is_test = |attribute: &Attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<Ident>()
                .is_ok_and(|what| what == "test")
    };
    attributes.iter().any(is_test)
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The name that an item defines.
fn defined(item: &Item) -> Option<&Ident> {
    match item {
        Item::Const(item) => Some(&item.ident),
        Item::Enum(item) => Some(&item.ident),
        Item::Fn(item) => Some(&item.sig.ident),
        Item::Macro(item) => item.ident.as_ref(),
        Item::Static(item) => Some(&item.ident),
        Item::Struct(item) => Some(&item.ident),
        Item::Trait(item) => Some(&item.ident),
        Item::Type(item) => Some(&item.ident),
        Item::Union(item) => Some(&item.ident),
        _ => None,
    }
}

/// One path of a `use`: `use a::{b, c::d as e, f::*}` has three.
struct Leaf {
    path: Vec<String>,
    /// What it is called here; none for `*`.
    name: Option<String>,
    line: usize,
}

fn leaves(tree: &UseTree) -> Vec<Leaf> {
    let mut found = Vec::new();
    add_leaves(tree, &mut Vec::new(), &mut found);
    found
}

fn add_leaves(tree: &UseTree, path: &mut Vec<String>, found: &mut Vec<Leaf>) {
    let mut add = |line: usize, last: Option<&Ident>, name: Option<&Ident>| {
        let last = last.map(text).filter(|last| last != "self");
        let path: Vec<String> = path.iter().cloned().chain(last).collect();
        let name = name.map(text).map(|name| match name.as_str() {
            "self" => path.last().cloned().unwrap_or_default(),
            _ => name,
        });
        found.push(Leaf { path, name, line });
    };
    let line = |ident: &Ident| ident.span().start().line;
    match tree {
        UseTree::Path(next) => {
            path.push(text(&next.ident));
            add_leaves(&next.tree, path, found);
            path.pop();
        }
        UseTree::Group(group) => group
            .items
            .iter()
            .for_each(|tree| add_leaves(tree, path, found)),
        UseTree::Name(leaf) => add(line(&leaf.ident), Some(&leaf.ident), Some(&leaf.ident)),
        UseTree::Rename(leaf) => add(line(&leaf.ident), Some(&leaf.ident), Some(&leaf.rename)),
        UseTree::Glob(glob) => add(glob.star_token.spans[0].start().line, None, None),
    }
}

/// Collects the paths of a module, without those of its child modules, of its tests, and of macros.
#[derive(Default)]
struct Imports {
    found: Vec<Import>,
}

impl<'ast> Visit<'ast> for Imports {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_of_tests(attributes(item)) && !matches!(item, Item::Mod(_)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let imports = leaves(&item.tree).into_iter();
        self.found.extend(imports.map(|leaf| Import {
            path: leaf.path,
            line: leaf.line,
            is_use: true,
        }));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_of_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            self.found.push(Import {
                path: path
                    .segments
                    .iter()
                    .map(|segment| text(&segment.ident))
                    .collect(),
                line: path.segments[0].ident.span().start().line,
                is_use: false,
            });
        }
        visit::visit_path(self, path);
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_macro(&mut self, _: &'ast syn::Macro) {}

    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}
}
