//! Any text, edited: what comes out reads again, and only the edited key differs.
#![no_main]

use clawpen_rules::config::tree::FileId;
use clawpen_rules::config::{edit, json5};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(before) = json5::parse(text, FileId(0)) else { return };
    if let Ok(after) = edit::set(text, &["zz", "new key"], "[1, 'x']") {
        let root = json5::parse(&after, FileId(0)).expect("an edit reads again").root;
        let value = root.get("zz").and_then(|zz| zz.get("new key"));
        assert_eq!(value.and_then(|value| value.as_array()).map(<[_]>::len), Some(2), "{after}");
        if let (Some(old), Some(new)) = (before.root.as_object(), root.as_object()) {
            let others = |object: &clawpen_rules::config::tree::Object| -> Vec<String> {
                object
                    .members()
                    .iter()
                    .map(|member| member.key.clone())
                    .filter(|key| key != "zz")
                    .collect()
            };
            assert_eq!(others(old), others(new), "{after}");
        }
    }
    if let Some(object) = before.root.as_object() {
        for member in object.members().iter().take(4) {
            if let Ok(after) = edit::remove(text, &[member.key.as_str()]) {
                let root = json5::parse(&after, FileId(0)).expect("an edit reads again").root;
                let count = root.as_object().map_or(0, |object| object.len());
                // A key that stands twice comes to light again when its later value goes.
                assert!(count == object.len() || count + 1 == object.len(), "{after}");
            }
        }
    }
});
