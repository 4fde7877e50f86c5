//! Which crate and folder defines what a path names, through any chain of `pub use`.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Import, Module, Name, Source};

/// The crates of the workspace by the names that code uses for them.
#[derive(Default)]
pub(super) struct Sources {
    pub(super) crates: BTreeMap<String, Source>,
}

/// Where an item is defined: a crate, and a folder of its `src` or a file beside them; none for the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Home<'a> {
    pub(super) crate_name: &'a str,
    pub(super) folder: Option<&'a str>,
}

/// A module of a crate.
#[derive(Clone, Copy)]
struct At<'a> {
    crate_name: &'a str,
    source: &'a Source,
    module: usize,
}

/// The `use`s that are being followed: crate, module, path.
type Following<'a> = Vec<(&'a str, usize, &'a [String])>;

impl Sources {
    /// Where the items that `import` names are defined: none for what is not of the workspace.
    ///
    /// A path that ends in what the source does not define by name (a variant, an associated item, an item that a macro
    /// makes) belongs where the longest known part of it does.
    pub(super) fn homes<'a>(
        &'a self,
        crate_name: &str,
        module: usize,
        import: &Import,
    ) -> BTreeSet<Home<'a>> {
        let Some((crate_name, source)) = self.crates.get_key_value(crate_name) else {
            return BTreeSet::new();
        };
        let at = At {
            crate_name,
            source,
            module,
        };
        if !import.is_use
            && !at.can_begin(&import.path[0])
            && !self.crates.contains_key(&import.path[0])
        {
            return BTreeSet::new();
        }
        self.longest(at, &import.path, &mut Vec::new())
    }

    /// Follows the longest beginning of a path that leads somewhere.
    fn longest<'a>(
        &'a self,
        at: At<'a>,
        path: &[String],
        following: &mut Following<'a>,
    ) -> BTreeSet<Home<'a>> {
        let lengths = (1..=path.len()).rev();
        let mut found = lengths.map(|n| self.from(at, &path[..n], following));
        found.find(|homes| !homes.is_empty()).unwrap_or_default()
    }

    /// Follows a path as it stands in a module.
    fn from<'a>(
        &'a self,
        at: At<'a>,
        path: &[String],
        following: &mut Following<'a>,
    ) -> BTreeSet<Home<'a>> {
        if path[0] == "crate" {
            return self.inside(at.root(), &path[1..], following);
        }
        let found = self.inside(at, path, following);
        match self.crates.get_key_value(&path[0]) {
            Some((crate_name, source)) if found.is_empty() => self.inside(
                At {
                    crate_name,
                    source,
                    module: 0,
                },
                &path[1..],
                following,
            ),
            _ => found,
        }
    }

    /// Follows the rest of a path from inside of a module.
    fn inside<'a>(
        &'a self,
        at: At<'a>,
        path: &[String],
        following: &mut Following<'a>,
    ) -> BTreeSet<Home<'a>> {
        let Some((head, rest)) = path.split_first() else {
            return BTreeSet::from([at.home()]);
        };
        if head == "self" {
            return self.inside(at, rest, following);
        }
        if head == "super" {
            let parent = at.module().parent.map(|module| At { module, ..at });
            return parent
                .map(|parent| self.inside(parent, rest, following))
                .unwrap_or_default();
        }
        let names = at.module().names.get(head);
        // A function may have the name of a module, but no path leads through it.
        let leads_on = |name: &Name| matches!(name, Name::Module(_)) && !rest.is_empty();
        let is_module = names.is_some_and(|names| names.iter().any(leads_on));
        let mut homes = BTreeSet::new();
        for name in names.into_iter().flatten() {
            homes.extend(match name {
                Name::Module(module) => {
                    let module = *module;
                    self.inside(At { module, ..at }, rest, following)
                }
                Name::Item if is_module => BTreeSet::new(),
                Name::Item => BTreeSet::from([at.home()]),
                Name::Import(target) => self.follow(at, target, rest, following),
            });
        }
        if homes.is_empty() {
            for glob in &at.module().globs {
                homes.extend(self.follow(at, glob, path, following));
            }
        }
        homes
    }

    /// Follows a `use`, unless it is being followed already: a name does not explain itself.
    fn follow<'a>(
        &'a self,
        at: At<'a>,
        target: &'a [String],
        rest: &[String],
        following: &mut Following<'a>,
    ) -> BTreeSet<Home<'a>> {
        let step = (at.crate_name, at.module, target);
        if following.contains(&step) {
            return BTreeSet::new();
        }
        following.push(step);
        let mut homes = self.from(at, &[target, rest].concat(), following);
        if homes.is_empty() {
            homes = self.longest(at, target, following);
        }
        following.pop();
        homes
    }
}

impl<'a> At<'a> {
    fn module(self) -> &'a Module {
        &self.source.modules[self.module]
    }

    fn root(self) -> At<'a> {
        At { module: 0, ..self }
    }

    fn home(self) -> Home<'a> {
        Home {
            crate_name: self.crate_name,
            folder: self.module().folder.as_deref(),
        }
    }

    /// Whether a path in a type or an expression can begin with this: other names were imported by a `use`, which counts.
    fn can_begin(self, head: &str) -> bool {
        let names = self.module().names.get(head);
        matches!(head, "crate" | "self" | "super")
            || names
                .into_iter()
                .flatten()
                .any(|name| matches!(name, Name::Module(_)))
    }
}
