//! Any contents of a token file: what is taken for a token is one visible word of the file, and short of the cap.
#![no_main]

use clawpen_gateway::mcp::http::{Guard, token};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some(word) = token::parse(input) else { return };
    assert!(input.len() <= 4096);
    assert!(!word.is_empty() && word.bytes().all(|byte| byte.is_ascii_graphic()));
    assert_eq!(input.trim_ascii(), word.as_bytes());
    assert_eq!(Guard::new(word, vec![], vec![]).is_ok(), word.len() >= 16);
});
