//! Limits, cuts and odd files.

use super::*;
use proptest::prelude::*;

#[test]
fn a_small_file_is_shown_as_it_is() {
    for contents in ["", "a", "a\n", "a\n\n", "a\r\nb\r\n", "\u{feff}a", "\n", "ü\u{1f600}\n"] {
        check(contents, 1, None, contents);
    }
}

#[test]
fn a_range_shows_its_lines_and_says_what_is_left() {
    let file = "1\n2\n3\n4\n5\n";
    check(file, 2, Some(2), "2\n3\n\n[2 more lines. To go on, read with offset=4.]");
    check(file, 4, Some(2), "4\n5\n");
    check(file, 4, Some(9), "4\n5\n");
    check(file, 5, None, "5\n");
    check("1\n2", 2, Some(1), "2");
}

#[test]
fn an_offset_past_the_end_says_how_long_the_file_is() {
    let refused = |contents: &str, first_line| {
        see(contents.as_bytes(), &call("f", first_line, None), Budget::default())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(refused("1\n2\n", 3), "offset 3 is past the end of the file, which has 2 lines");
    assert_eq!(refused("", 2), "offset 2 is past the end of the file, which has 0 lines");
}

#[test]
fn a_page_ends_after_2000_lines_or_50_kib_whichever_comes_first() {
    let short = numbered(2500);
    let page = page(&short, &call("f", 1, Some(2400)), Budget::default());
    assert_eq!((page.lines, page.stop, page.next_line()), (2000, Stop::Lines, 2001));
    assert!(page.render("f").ends_with(
        "2000\n\n[Lines 1-2000 of 2500 (a page has 2000 lines). To go on, read with offset=2001.]"
    ));

    let wide = format!("{}\n", "x".repeat(99)).repeat(1000);
    let page = self::page(&wide, &call("f", 11, Some(1000)), Budget::default());
    // 100 bytes a line, of which the last needs no line end: 512 lines are 51,199.
    assert_eq!((page.lines, page.stop, page.total_lines), (512, Stop::Bytes, Total::Exactly(1000)));
    assert!(
        page.render("f").ends_with(
            "[Lines 11-522 of 1000 (a page has 50 KiB). To go on, read with offset=523.]"
        )
    );
}

#[test]
fn without_a_limit_pages_are_joined_up_to_the_budget() {
    let short = numbered(2500);
    check(&short, 1, None, &short);
    let long = numbered(30_000);
    let page = |tokens| self::page(&long, &call("f", 1, None), Budget::for_context(tokens));
    let seen = page(None);
    assert_eq!(seen.stop, Stop::Budget(Budget::default()));
    assert!(seen.text.len() <= PAGE_BYTES && seen.text.len() > PAGE_BYTES - 6);
    assert_eq!(page(Some(1_000_000)).stop, Stop::Pages);
    assert_eq!(page(Some(1_000_000)).lines, PAGES * PAGE_LINES);
    for (tokens, bytes) in
        [(None, 51_200), (Some(1), 51_200), (Some(100_000), 80_000), (Some(u64::MAX), 524_288)]
    {
        assert_eq!(Budget::for_context(tokens).bytes(), bytes);
    }
}

#[test]
fn a_line_longer_than_a_page_is_never_cut() {
    let long = "x".repeat(PAGE_BYTES + 1);
    let hint = "[Line 1 alone has 50 KiB, a page has 50 KiB. See a part of it with exec: sed -n '1p' 'it'\\''s' | head -c 51200]";
    let seen = page(&long, &call("it's", 1, None), Budget::default());
    assert_eq!(seen.render("it's"), hint);
    check(
        &format!("a\n{long}\nb\n"),
        1,
        None,
        "a\n\n[Lines 1-1 of 3 (a page has 50 KiB). To go on, read with offset=2.]",
    );
    check(&format!("{long}\nb\n"), 2, None, "b\n");
    let fits = "x".repeat(PAGE_BYTES);
    check(&fits, 1, None, &fits);
}

#[test]
fn what_is_no_text_is_refused_and_odd_bytes_are_replaced() {
    let refused =
        |contents: &[u8]| see(contents, &call("f", 1, None), Budget::default()).unwrap_err();
    assert_eq!(refused(b"ab\0"), ReadRefused::NoText(NoText::Binary { bytes: 3 }));
    assert_eq!(refused(b"\xff\xfea\0b\0"), ReadRefused::NoText(NoText::Utf16));
    let late = [vec![b'\n'; text::SNIFFED], vec![0]].concat();
    assert_eq!(
        see(&late, &call("f", 9000, None), Budget::default()).unwrap_err(),
        ReadRefused::PastEnd { first_line: 9000, lines: 8193 }
    );
    let bytes = late.len() as u64;
    assert_eq!(
        see(&late, &call("f", 8193, None), Budget::default()),
        Err(ReadRefused::NoText(NoText::Binary { bytes }))
    );
    let Ok(Seen::Text(page)) = see(b"caf\xe9\n", &call("f", 1, None), Budget::default()) else {
        panic!()
    };
    assert_eq!((page.text.as_str(), page.is_lossy), ("caf\u{fffd}\n", true));
}

#[test]
fn an_image_is_known_by_its_bytes_and_must_be_what_its_name_says() {
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    let image = Seen::Image { kind: Image::Png, bytes: png.clone() };
    for name in ["a.png", "a.txt", "a.jpg"] {
        assert_eq!(see(&png, &call(name, 1, None), Budget::default()).as_ref(), Ok(&image));
    }
    let claimed = Image::Png;
    assert_eq!(
        see(b"text", &call("a.png", 1, None), Budget::default()),
        Err(ReadRefused::NoImage { claimed })
    );
    let mut large = png;
    large.resize(usize::try_from(image::LARGEST).unwrap() + 1, 0);
    assert_eq!(
        see(&large, &call("a", 1, None), Budget::default()),
        Err(ReadRefused::ImageTooLarge)
    );
}

#[test]
fn a_huge_file_is_counted_only_so_far_and_costs_no_memory() {
    let mut scan = Scan::new(&call("f", 1, Some(1)), Budget::default());
    let piece = vec![b'\n'; 1 << 20];
    let mut fed = 0;
    while scan.feed(&piece) == Appetite::More {
        fed += 1;
        assert!(scan.shown.len() + scan.line.capacity() + scan.start.len() < 1 << 18);
    }
    assert_eq!(fed, 63);
    let Ok(Seen::Text(page)) = scan.finish(Ended::No) else { panic!() };
    assert_eq!(page.total_lines, Total::AtLeast(64 << 20));
    assert_eq!(
        page.render("f"),
        "\n\n[more than 67108863 more lines. To go on, read with offset=2.]"
    );

    let mut endless = Scan::new(&call("f", 1, None), Budget::default());
    let piece = vec![b'x'; 1 << 20];
    let mut fed = 0;
    while endless.feed(&piece) == Appetite::More {
        fed += 1;
        assert!(endless.line.len() <= PAGE_BYTES + 1);
    }
    assert_eq!(fed, 63);
    let Ok(Seen::Text(page)) = endless.finish(Ended::No) else { panic!() };
    assert_eq!((page.text.as_str(), page.stop), ("", Stop::LongLine { bytes: 64 << 20 }));
}

proptest! {
    #[test]
    fn pages_put_together_are_the_file(lines in prop::collection::vec("[a-zü\r]{0,12}", 0..40), limit in 1_u64..7, ended: bool) {
        let mut file = lines.join("\n");
        if ended && !file.is_empty() {
            file.push('\n');
        }
        let (mut whole, mut next) = (String::new(), 1);
        loop {
            let page = page(&file, &call("f", next, Some(limit)), Budget::default());
            whole.push_str(&page.text);
            let Total::Exactly(total) = page.total_lines else { panic!() };
            next = page.next_line();
            if next > total {
                break;
            }
        }
        prop_assert_eq!(whole, file);
    }

    #[test]
    fn the_pieces_a_file_comes_in_make_no_difference(contents: Vec<u8>, cuts in prop::collection::vec(0_usize..64, 0..8), first in 1_u64..4) {
        let call = call("f", first, Some(2));
        let mut scan = Scan::new(&call, Budget::default());
        let mut rest = contents.as_slice();
        for cut in cuts {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            scan.feed(piece);
            rest = after;
        }
        scan.feed(rest);
        prop_assert_eq!(scan.finish(Ended::Yes), see(&contents, &call, Budget::default()));
    }
}

#[track_caller]
fn check(contents: &str, first_line: u64, limit: Option<u64>, expected: &str) {
    let page = page(contents, &call("f", first_line, limit), Budget::default());
    assert_eq!(page.render("f"), expected);
}

#[track_caller]
fn page(contents: &str, call: &ReadCall, budget: Budget) -> Page {
    match see(contents.as_bytes(), call, budget).unwrap() {
        Seen::Text(page) => page,
        Seen::Image { .. } => panic!("an image"),
    }
}

fn see(contents: &[u8], call: &ReadCall, budget: Budget) -> Result<Seen, ReadRefused> {
    let mut scan = Scan::new(call, budget);
    scan.feed(contents);
    scan.finish(Ended::Yes)
}

fn call(path: &str, first_line: u64, limit: Option<u64>) -> ReadCall {
    ReadCall { path: path.to_owned(), first_line, limit }
}

fn numbered(lines: u32) -> String {
    (1..=lines).map(|line| format!("{line}\n")).collect::<Vec<_>>().concat()
}
