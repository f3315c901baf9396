//! Any text as entries of tool lists: a deny is never lost, and the glob ends in time.
#![no_main]

use clawpen_rules::tool_policy::{Layers, Tool, decide, smallest_change};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut parts = text.split('\n');
    let name = parts.next().unwrap_or_default();
    let (allow, deny): (Vec<&str>, Vec<&str>) = parts.partition(|part| part.len() % 2 == 0);
    let tool = Tool::core(name);
    let layers = Layers::of_policy(&allow, &deny);
    let verdict = decide(&layers, &tool);
    // Whatever else is written: naming the tool itself in the deny list settles it.
    let named = [deny.as_slice(), &[tool.name().as_str()]].concat();
    // (A name like a group's is refused by a layer of its own, which one policy alone lacks.)
    let is_plain =
        !tool.name().as_str().trim().is_empty() && !tool.name().as_str().starts_with("group:");
    if is_plain {
        assert!(!decide(&Layers::of_policy(&allow, &named), &tool).is_allowed());
    }
    // Advice exists exactly for what is refused.
    assert_eq!(smallest_change(&layers, &tool).is_empty(), verdict.is_allowed());
});
