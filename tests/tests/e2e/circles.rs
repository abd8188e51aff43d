//! No large circle of imports: files that need each other can only be read, tested and changed
//! together.

// An import counts from the file that uses a name to the file that defines it. A re-export in
// between is no dependency, nor is `mod x;`. Tests at the end of a file do not count. Imports are
// read from the text, so a macro can hide one.

#![allow(clippy::unwrap_used, reason = "all of this file is a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Maximum number of files in a circle.
const MAX_CIRCLE: usize = 5;
/// Maximum number of imports followed to the definition of a name.
const MAX_STEPS: usize = 8;
/// The sizes of larger circles that exist, by crate, largest first. Only lower them.
const ALLOWANCES: &[(&str, &[usize])] = &[];

/// A path without its `::`. A module's path begins at the crate's root.
type ModulePath = Vec<String>;
type Modules = BTreeMap<ModulePath, SourceModule>;

/// One file of a crate.
#[derive(Default)]
struct SourceModule {
    file: String,
    defines: BTreeSet<String>,
    /// The path behind each imported name, as written.
    imports: BTreeMap<String, ModulePath>,
    /// The paths of glob imports.
    globs: Vec<ModulePath>,
    /// The paths that the file depends on.
    uses: BTreeSet<ModulePath>,
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// Splits a source into words, `::` and other signs, without comments and the tests at its end.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let (mut inner, mut before) = (false, "");
    for line in text.lines() {
        let begins = line.ends_with('{') && line.split(' ').take(2).any(|word| word == "mod");
        if begins && before == "#[cfg(test)]" {
            break;
        }
        inner = line != "}" && (inner || begins);
        before = line;
        let mut rest = line.split("//").next().unwrap().trim_start();
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            let sign = if rest.starts_with("::") { 2 } else { first.len_utf8() };
            let (token, behind) = rest.split_at(if word > 0 { word } else { sign });
            // What is outside an inline module is still in the same file.
            let outside = inner && token == "super" && tokens.last() != Some(&"::");
            tokens.push(if outside { "self" } else { token });
            rest = behind.trim_start();
        }
    }
    tokens
}

/// Returns the imported names of a `use` statement, and the paths behind them.
fn read_imports(statement: &[&str]) -> Vec<(String, ModulePath)> {
    let (mut found, mut path, mut outer) = (Vec::new(), ModulePath::new(), vec![ModulePath::new()]);
    for token in statement {
        match *token {
            "::" => {}
            "{" => outer.push(path.clone()),
            "," | "}" | ";" => {
                if path.len() > outer.last().map_or(0, Vec::len) {
                    found.push(path);
                }
                outer.pop_if(|_| *token == "}");
                path = outer.last().cloned().unwrap_or_default();
            }
            name => path.push(name.to_owned()),
        }
    }
    let named = |mut path: ModulePath| {
        let alias = path.iter().position(|name| name == "as").map(|at| path.split_off(at).remove(1));
        path.pop_if(|last| last == "self");
        (alias.or_else(|| path.last().cloned()).unwrap_or_default(), path)
    };
    found.into_iter().map(named).collect()
}

/// Reads what a file defines, imports and depends on.
fn read_module(file: &str, text: &str) -> SourceModule {
    let tokens = tokens(text);
    let mut module = SourceModule { file: file.to_owned(), ..SourceModule::default() };
    let mut at = 0;
    while at < tokens.len() {
        let token = |at: usize| tokens.get(at).copied().unwrap_or_default();
        let before = if at > 0 { token(at - 1) } else { "" };
        match token(at) {
            "use" if matches!(before, "" | ";" | "}" | "{" | "]" | ")" | "pub") => {
                let length = tokens[at..].iter().take_while(|token| **token != ";").count();
                let statement = tokens.get(at + 1..=at + length).unwrap_or_default();
                for (name, mut path) in read_imports(statement) {
                    if !matches!(before, "pub" | ")") {
                        module.uses.insert(path.clone());
                    }
                    if path.pop_if(|last| last == "*").is_some() {
                        module.globs.push(path);
                    } else if path != ["self", &name] {
                        module.imports.insert(name, path);
                    }
                }
                at += length;
            }
            "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static" => {
                module.defines.insert(token(at + 1).to_owned());
            }
            "mod" if token(at + 2) == "{" => _ = module.defines.insert(token(at + 1).to_owned()),
            word if is_word(word) && before != "::" => {
                let mut path = vec![word.to_owned()];
                while token(at + 1) == "::" && is_word(token(at + 2)) {
                    path.push(token(at + 2).to_owned());
                    at += 2;
                }
                module.uses.extend(Some(path).filter(|path| path.len() > 1));
            }
            _ => {}
        }
        at += 1;
    }
    module
}

/// Reads the files of a crate, by their paths below `src`.
fn read_modules<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Modules {
    let names = |file: &str| {
        let mut names: ModulePath = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        names.pop_if(|last| matches!(last.as_str(), "mod" | "lib" | "main"));
        names
    };
    files.into_iter().map(|(file, text)| (names(file), read_module(file, text))).collect()
}

/// Returns the module that defines `path` when used in the module `at`.
///
/// `None` means outside of the crate. `steps` limits how many imports are followed.
fn definer(modules: &Modules, at: &[String], path: &[String], steps: usize) -> Option<ModulePath> {
    let (first, rest) = path.split_first()?;
    let below = [at, &path[..1]].concat();
    match first.as_str() {
        "crate" => return definer(modules, &[], rest, steps),
        "self" => return definer(modules, at, rest, steps),
        "super" => return definer(modules, at.split_last()?.1, rest, steps),
        "*" => return Some(at.to_vec()),
        _ if !rest.is_empty() && modules.contains_key(&below) => {
            return definer(modules, &below, rest, steps);
        }
        _ => {}
    }
    let module = modules.get(at)?;
    let steps = steps.checked_sub(1)?;
    if let Some(import) = module.imports.get(first) {
        return definer(modules, at, &[import, rest].concat(), steps);
    }
    if module.defines.contains(first) {
        return Some(at.to_vec());
    }
    module.globs.iter().find_map(|glob| definer(modules, at, &[glob, path].concat(), steps))
}

/// Returns the circles, largest first: each file of one, with the other files that it imports.
fn circles(modules: &Modules) -> Vec<BTreeMap<&str, BTreeSet<&str>>> {
    let file = |names: ModulePath| Some(modules.get(&names)?.file.as_str());
    let needed = |names: &ModulePath, module: &SourceModule| {
        let files = module.uses.iter().filter_map(|path| file(definer(modules, names, path, MAX_STEPS)?));
        files.filter(|file| *file != module.file).collect()
    };
    let needs: BTreeMap<&str, BTreeSet<&str>> =
        modules.iter().map(|(names, module)| (module.file.as_str(), needed(names, module))).collect();
    let reach = |file| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![file]);
        while let Some(file) = open.pop() {
            open.extend(needs[file].iter().filter(|needed| reached.insert(**needed)));
        }
        reached
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> = needs.keys().map(|file| (*file, reach(*file))).collect();
    let mut found = Vec::new();
    for (file, all) in &reached {
        let circle: BTreeSet<&str> =
            all.iter().copied().filter(|other| reached[other].contains(file)).collect();
        if circle.first() == Some(file) {
            found.push(circle.iter().map(|file| (*file, &needs[file] & &circle)).collect());
        }
    }
    found.sort_by_key(|circle: &BTreeMap<_, _>| std::cmp::Reverse(circle.len()));
    found
}

/// Returns the sources below a folder, by their paths in it.
///
/// Omits those in `bin`, which are separate crates.
fn sources(src: &Path) -> Vec<(String, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![src.to_owned()]);
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.strip_prefix(src).unwrap().to_str().unwrap();
            if path.is_dir() && name != "bin" {
                folders.push(path);
            } else if name.ends_with(".rs") {
                found.push((name.to_owned(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

#[test]
fn files_that_need_each_other_are_few() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let members = manifest.split_once("members = [").unwrap().1.split_once(']').unwrap().0;
    let members: Vec<&str> = members.split('"').skip(1).step_by(2).collect();
    for (folder, _) in ALLOWANCES {
        assert!(members.contains(folder), "{folder} is no crate; remove its allowance");
    }
    for folder in members {
        let src = root.join(folder).join("src");
        // The fuzz targets have no `src` folder.
        let sources = if src.is_dir() { sources(&src) } else { Vec::new() };
        let modules = read_modules(sources.iter().map(|(file, text)| (file.as_str(), text.as_str())));
        let large: Vec<_> =
            circles(&modules).into_iter().filter(|circle| circle.len() > MAX_CIRCLE).collect();
        let sizes: Vec<usize> = large.iter().map(BTreeMap::len).collect();
        let allowed = ALLOWANCES.iter().find(|(name, _)| *name == folder).map_or(&[][..], |(_, sizes)| sizes);
        assert_eq!(
            sizes, allowed,
            "{folder}: move what the files of a new circle share below them; if the circles have shrunk, \
             lower the allowance. These files import each other:\n{large:#?}"
        );
    }
}

#[test]
fn a_circle_is_found_through_a_re_export() {
    let modules = read_modules([
        ("lib.rs", "mod a;\nmod b;\nmod below;\nmod c;\n"),
        ("a.rs", "use crate::b::{self, Other as Renamed};\npub struct A;\nfn f() { b::g() }\n"),
        ("b/mod.rs", "mod inner;\npub use inner::{Other, g};\n"),
        ("b/inner.rs", "pub struct Other;\npub fn g() -> super::super::c::C { todo!() }\n"),
        ("c.rs", "use super::*;\npub struct C(a::A);\nmod own {\nfn h() { super::super::below::i() }\n}\n"),
        ("below.rs", "// See crate::a::A.\npub fn i() {}\n#[cfg(test)]\nmod tests {\nuse crate::c::C;\n}\n"),
    ]);
    let found = circles(&modules);
    let needs = |file, others: [&'static str; 1]| (file, BTreeSet::from(others));
    let circle = [needs("a.rs", ["b/inner.rs"]), needs("b/inner.rs", ["c.rs"]), needs("c.rs", ["a.rs"])];
    assert_eq!(found, [BTreeMap::from(circle)]);
    let below: ModulePath = ["super", "below", "i"].map(str::to_owned).into();
    assert_eq!(definer(&modules, &["c".to_owned()], &below, MAX_STEPS), Some(vec!["below".to_owned()]));
}
