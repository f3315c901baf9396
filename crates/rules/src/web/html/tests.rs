//! Pages as models see them.

use proptest::prelude::*;

use super::*;
use crate::web::target;

fn base() -> Target {
    target::decide("https://example.com/docs/page").unwrap()
}

#[track_caller]
fn check(html: &str, markdown: &str, text: &str) {
    assert_eq!(render(html, &base(), Mode::Markdown).text, markdown, "{html}");
    assert_eq!(render(html, &base(), Mode::Text).text, text, "{html}");
}

#[test]
fn blocks_stand_apart_and_blanks_run_together() {
    check("<p>one\n  two</p><p>three", "one two\n\nthree", "one two\n\nthree");
    check("<div>a</div><div>b<br>c</div>", "a\nb\nc", "a\nb\nc");
    check("<h2>Head <em>line</em></h2>text", "## Head *line*\n\ntext", "Head line\n\ntext");
    check("a<b> bold </b>c", "a **bold** c", "a bold c");
    check("x<strong></strong>y", "xy", "xy");
    check("<hr>end", "---\n\nend", "---\n\nend");
}

#[test]
fn lists_quotes_tables_and_code_keep_their_shape() {
    check(
        "<ul><li>a<li>b<ol><li>c</li><li>d</ol></ul>e",
        "- a\n- b\n  1. c\n  2. d\n\ne",
        "- a\n- b\n  1. c\n  2. d\n\ne",
    );
    check("<blockquote>q<p>r</blockquote>s", "> q\n\n> r\n\ns", "q\n\nr\n\ns");
    check("<table><tr><th>a<th>b<tr><td>1<td>2</table>", "a | b\n1 | 2", "a | b\n1 | 2");
    check(
        "<pre><code>fn a() {\n  1\n}</code></pre>z",
        "```\nfn a() {\n  1\n}\n```\n\nz",
        "fn a() {\n  1\n}\n\nz",
    );
    check("use <code>x&lt;T&gt;</code>", "use `x<T>`", "use x<T>");
}

#[test]
fn links_are_whole_and_images_are_words() {
    check(
        "see <a href='../x?a=1&amp;b=2'>the  page</a>.",
        "see [the page](https://example.com/x?a=1&b=2).",
        "see the page.",
    );
    check("<a href=javascript:alert(1)>no</a>", "no", "no");
    check("<a href=/x><div>block</div><div>two</div></a>", "block\ntwo", "block\ntwo");
    check("<ul><li><a href=/x><b>x</b></a></ul>", "- [**x**](https://example.com/x)", "- x");
    check("<b>a <a href=/x>x</a></b>", "**a [x](https://example.com/x)**", "a x");
    check("<a href=/x><h2>x</h2></a>", "## [x](https://example.com/x)", "x");
    check(
        "<img src=https://spy.example/p.png alt='a chart'>",
        "[image: a chart]",
        "[image: a chart]",
    );
    check("<img src=https://spy.example/p.png>", "", "");
}

#[test]
fn what_only_browsers_need_is_left_out() {
    check(
        "<script>if (a < b) { x(\"</p>\") }</script>a<style>p{}</style><!-- <p>no -->b",
        "ab",
        "ab",
    );
    check("<SCRIPT>x</Script >y", "y", "y");
    check("<!doctype html><?xml x?>t", "t", "t");
    check("a < b && c", "a < b && c", "a < b && c");
    check("&amp;&eacute;&#x20ac;&#8364;&nope;&#0;&", "&é€€&nope;\u{fffd}&", "&é€€&nope;\u{fffd}&");
    check("<p title='>'>quoted</p>", "quoted", "quoted");
}

#[test]
fn the_part_that_a_page_is_about_is_taken() {
    let story = "word ".repeat(60);
    let page = format!(
        "<title> A &amp; B </title><nav>menu</nav><div>ad</div><main><p>{story}</main><footer>foot</footer>"
    );
    let read = render(&page, &base(), Mode::Markdown);
    assert_eq!(read, Page { title: Some(" A & B ".into()), text: story.trim().into() });
    // Two articles are a list of them; a short part is not what the page is about.
    let two = format!("<article>{story}</article><article>{story}</article>");
    assert_eq!(render(&two, &base(), Mode::Text).text.len(), 2 * story.trim().len() + 2);
    check("before<main>x</main>after", "before\n\nx\n\nafter", "before\n\nx\n\nafter");
    // A menu that never ends does not hide the page.
    check("<nav>menu<p>everything else", "menu\n\neverything else", "menu\n\neverything else");
}

#[test]
fn a_page_that_is_nothing_but_tags_ends() {
    for tag in [
        "<div>",
        "<b>",
        "<li>",
        "<a href=x>y",
        "<",
        "</",
        "<!--",
        "<a b=\"",
        "<pre>",
        "<ul><li>z",
        "<title>",
        "&#",
        "<blockquote>q<p>",
    ] {
        let page = tag.repeat(60_000);
        let text = render(&page, &base(), Mode::Markdown).text;
        assert!(text.len() <= page.len() * 4 + 70_000, "{tag}: {}", text.len());
    }
}

proptest! {
    #[test]
    fn any_text_is_a_page(html in "(<|>|/|a|p|li|ul|pre|main|nav|script|title| |href|=|'|\"|&|;|#x41|!--|--|\u{e4}|\n|b){0,60}") {
        for mode in [Mode::Markdown, Mode::Text] {
            let page = render(&html, &base(), mode);
            prop_assert_eq!(page.text.trim(), page.text.as_str());
            prop_assert!(!page.text.contains("\n\n\n") || html.contains("pre"));
        }
    }

    #[test]
    fn words_outside_of_tags_stay_in_order(words in proptest::collection::vec("[a-z]{1,8}", 0..20)) {
        let html: String = words.iter().flat_map(|word| ["<p>", word, "</p>"]).collect();
        let text = render(&html, &base(), Mode::Text).text;
        prop_assert_eq!(text.split_whitespace().collect::<Vec<_>>(), words);
    }
}
