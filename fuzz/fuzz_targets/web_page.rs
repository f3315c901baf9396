//! Any bytes as a page: it is read without a crash, costs what its length costs, and holds no mark of ours afterwards.
#![no_main]

use clawpen_rules::web::html::{self, Mode};
use clawpen_rules::web::{media, target, wrap};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _charset = media::charset_in_page(input);
    let text = String::from_utf8_lossy(input);
    let base = target::decide("https://example.com/a/b").expect("an address");
    for mode in [Mode::Markdown, Mode::Text] {
        let page = html::render(&text, &base, mode);
        assert!(page.text.len() <= text.len() * 4 + 70_000);
        let shown = wrap::clean(&page.text, 1_000);
        assert!(shown.text.chars().count() <= 1_000);
        assert!(
            !shown.text.contains("<<<WEB_CONTENT") && !shown.text.contains("<<<END_WEB_CONTENT")
        );
    }
});
