//! Finds which file of the crate imports which: follows paths in `use` and in code through
//! re-exports to the file that defines the item.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Source;

/// The modules of the crate by path, without tests: `parser::gap`, or an empty path for the
/// crate itself.
pub(crate) struct Modules {
    by_path: BTreeMap<String, Module>,
}

struct Module {
    /// The path of its file below `src`.
    file: String,
    /// All paths that it names, as written.
    paths: BTreeSet<String>,
    /// The names that its `use` declarations import, with their paths.
    names: BTreeMap<String, String>,
}

impl Modules {
    pub(crate) fn new(sources: &[Source]) -> Self {
        let of_product = sources.iter().filter(|source| !source.is_test());
        let by_path = of_product.map(|source| (path_of(&source.path), Module::new(source)));
        Self { by_path: by_path.collect() }
    }

    /// For each file, the files that it imports. A module and its submodules count as one: they
    /// may name each other.
    pub(crate) fn imports(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut imports = BTreeMap::new();
        for (path, module) in &self.by_path {
            let targets = module.paths.iter().filter_map(|named| self.home(named, path, 0));
            let is_other = |target: &&str| !is_inside(target, path) && !is_inside(path, target);
            let targets = targets.filter(is_other).map(|target| self.file(target));
            imports.insert(self.file(path), targets.collect());
        }
        imports
    }

    fn file(&self, path: &str) -> &str {
        &self.by_path[path].file
    }

    /// The module that defines `named`, as seen from `module`; `None` if it is another crate's.
    fn home<'m>(&'m self, named: &str, module: &'m str, depth: usize) -> Option<&'m str> {
        // Re-exports of re-exports are rare, and a glob could lead in circles.
        if depth > 8 {
            return None;
        }
        let segments = self.absolute(named, module)?;
        let known = (0..=segments.len()).rev().find_map(|end| {
            let path = segments[..end].join("::");
            self.by_path.get_key_value(&path).map(|(path, module)| (end, path, module))
        });
        let (end, path, found) = known?;
        if let Some(name) = segments.get(end)
            && path != module
            && let Some(original) = found.names.get(name)
        {
            let rest = segments[end + 1..].iter().map(String::as_str);
            let original = std::iter::once(original.as_str()).chain(rest).collect::<Vec<_>>();
            return self.home(&original.join("::"), path, depth + 1).or(Some(path));
        }
        // The rest names an item of the crate's root only if the root has it.
        (!path.is_empty() || segments.is_empty()).then_some(path.as_str())
    }

    /// The path from the crate's root.
    fn absolute(&self, named: &str, module: &str) -> Option<Vec<String>> {
        let mut segments: Vec<&str> = named.split("::").collect();
        let mut base: Vec<&str> = module.split("::").filter(|part| !part.is_empty()).collect();
        match segments[0] {
            "crate" => base.clear(),
            "self" => {}
            "super" => {
                while segments.first() == Some(&"super") {
                    base.pop();
                    segments.remove(0);
                }
                segments.insert(0, "super");
            }
            first => {
                let child = base.iter().chain([&first]).copied().collect::<Vec<_>>().join("::");
                if !self.by_path.contains_key(&child) {
                    return None;
                }
                segments.insert(0, "self");
            }
        }
        Some(base.into_iter().chain(segments.into_iter().skip(1)).map(str::to_owned).collect())
    }
}

impl Module {
    fn new(source: &Source) -> Self {
        let code = source.code();
        let mut names = BTreeMap::new();
        let mut rest = String::new();
        let mut paths = BTreeSet::new();
        let mut at = 0;
        for (start, _) in code.match_indices("use ") {
            let is_word = start > 0 && code.as_bytes()[start - 1].is_ascii_alphanumeric();
            if start < at || is_word {
                continue;
            }
            let end = start + code[start..].find(';').unwrap_or(code.len() - start);
            rest.push_str(&code[at..start]);
            for path in flatten(&code[start + 4..end], "") {
                let name = path.rsplit("::").next().unwrap_or_default().to_owned();
                names.insert(name, path.clone());
                paths.insert(path);
            }
            at = end;
        }
        rest.push_str(&code[at..]);
        paths.extend(paths_in(&rest));
        Self { file: source.path.clone(), paths, names }
    }
}

/// The module path of a file: `parser/payload/mod.rs` becomes `parser::payload`.
fn path_of(file: &str) -> String {
    let path = file.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if path == "lib" { String::new() } else { path.replace('/', "::") }
}

fn is_inside(path: &str, module: &str) -> bool {
    module.is_empty()
        || path.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The single paths of a `use` tree: `a::{b, c::d}` becomes `a::b` and `a::c::d`.
fn flatten(tree: &str, prefix: &str) -> Vec<String> {
    let tree = tree.trim();
    let join = |path: &str| match (prefix, path) {
        ("", path) => path.to_owned(),
        (prefix, "") => prefix.to_owned(),
        (prefix, path) => format!("{prefix}::{path}"),
    };
    let Some((path, group)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default().trim();
        return vec![join(path.trim_end_matches("::*").trim_end_matches("::self"))];
    };
    let prefix = join(path.trim().trim_end_matches("::"));
    let (mut depth, mut member, mut paths) = (0_usize, String::new(), Vec::new());
    for char in group.chars() {
        match char {
            '}' if depth == 0 => break,
            ',' if depth == 0 => {
                paths.extend(flatten(&std::mem::take(&mut member), &prefix));
                continue;
            }
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        member.push(char);
    }
    if !member.trim().is_empty() {
        paths.extend(flatten(&member, &prefix));
    }
    paths
}

/// The paths in code that start with `crate`, `super` or `self`.
fn paths_in(code: &str) -> BTreeSet<String> {
    let is_part = |char: char| char.is_alphanumeric() || char == '_' || char == ':';
    let words = code.split(|char| !is_part(char));
    let begins =
        |word: &&str| ["crate::", "super::", "self::"].iter().any(|root| word.starts_with(root));
    words.filter(begins).map(|word| word.trim_end_matches(':').to_owned()).collect()
}

/// The groups of two or more nodes that lead back to themselves.
pub(crate) fn cycles<'g>(graph: &BTreeMap<&'g str, BTreeSet<&'g str>>) -> Vec<BTreeSet<&'g str>> {
    let reach = |from: &'g str| -> BTreeSet<&'g str> {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(next) = open.pop() {
            for target in graph.get(next).into_iter().flatten() {
                if seen.insert(*target) {
                    open.push(target);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|node| (*node, reach(node))).collect();
    let mut cycles: Vec<BTreeSet<&str>> = Vec::new();
    for (node, targets) in &reached {
        let back = |target: &&&str| reached.get(**target).is_some_and(|it| it.contains(node));
        let cycle: BTreeSet<&str> = targets.iter().filter(back).copied().collect();
        if cycle.len() > 1 && !cycles.contains(&cycle) {
            cycles.push(cycle);
        }
    }
    cycles
}
