//! The modules of this crate import one way: what lies in a log, then reading it and working with
//! what it holds, then opening a volume and serving it.

#![allow(clippy::expect_used, reason = "a test may fail loudly")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Each may use those before it, and no other. Tests of a module are held to it, too.
const LAYERS: [&[&str]; 5] = [
    &["ids", "number", "sabotage", "span", "interval", "content", "ring", "error", "wire"],
    &["record", "seal", "frame"],
    &["batch", "config", "version", "settled", "scan", "read", "local", "freeing", "throttle"],
    &["action", "step"],
    &["recovery", "journal"],
];

/// The modules that a file names as `crate::MODULE`.
fn imports(file: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(file).expect("a source file");
    let after = text.split("crate::").skip(1);
    let name = |rest: &str| rest.chars().take_while(|letter| letter.is_alphanumeric()).collect();
    after.map(name).filter(|name: &String| name.starts_with(char::is_lowercase)).collect()
}

#[test]
fn modules_import_what_lies_below_them() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let order: Vec<&str> = LAYERS.concat();
    let mut faults = Vec::new();
    for (place, module) in order.iter().enumerate() {
        let mut files = vec![source.join(format!("{module}.rs"))];
        if let Ok(inner) = fs::read_dir(source.join(module)) {
            files.extend(inner.map(|entry| entry.expect("an entry").path()));
        }
        let allowed = order.get(..=place).expect("it is in the list");
        for import in files.iter().flat_map(|file| imports(file)) {
            if !allowed.contains(&import.as_str()) {
                faults.push(format!("{module} imports {import}"));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn every_module_has_its_layer() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let name = |entry: fs::DirEntry| {
        let path = entry.path();
        let is_module = path.extension().is_some_and(|ending| ending == "rs");
        is_module.then(|| path.file_stem().expect("a name").to_string_lossy().into_owned())
    };
    let entries = fs::read_dir(source).expect("the sources").map(|entry| entry.expect("an entry"));
    let found: BTreeSet<String> = entries.filter_map(name).filter(|name| name != "lib").collect();
    let listed = LAYERS.concat().into_iter().map(str::to_owned).collect();
    assert_eq!(found, listed);
}
