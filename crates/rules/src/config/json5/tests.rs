//! The reader against tables, against a second reader, and against hostile depth and size.

use proptest::prelude::*;

use super::*;

fn value(text: &str) -> Value {
    parse(text, FileId(0)).unwrap().root.value
}

/// The tree as JSON text, without places: enough to compare with.
fn shape(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => format!("{number:?}"),
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| shape(&item.value)).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(object) => {
            let members: Vec<String> = object
                .members()
                .iter()
                .map(|member| format!("{:?}:{}", member.key, shape(&member.node.value)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(shape(&value(text)), expected, "{text}");
}

#[track_caller]
fn check_error(text: &str, line: u32, column: u32, problem: ParseProblem) {
    assert_eq!(parse(text, FileId(0)).unwrap_err(), ParseError { line, column, problem }, "{text}");
}

#[test]
fn everything_json5_can_say() {
    check("// c\n{a:1,/* x */'b':[true,false,null,],}", "{\"a\":1.0,\"b\":[true,false,null]}");
    check("[0x1F, +.5, -1., 1e2, .5E-1, -0]", "[31.0,0.5,-1.0,100.0,0.05,-0.0]");
    check("[Infinity, -Infinity, NaN]", "[inf,-inf,NaN]");
    check("'it\\'s \\x41\\u0042\\\n \\0\\v'", "\"it's AB \\0\\u{b}\"");
    check("'\\ud83d\\ude00'", "\"😀\"");
    check("{$a_1:1, ünï:2, \\u0061b:3}", "{\"$a_1\":1.0,\"ünï\":2.0,\"ab\":3.0}");
    check("\u{feff}\u{a0}{}\u{2028}", "{}");
    check("{b:1,'10':2,a:3,'2':4,b:5}", "{\"2\":4.0,\"10\":2.0,\"b\":5.0,\"a\":3.0}");
}

#[test]
fn mistakes_are_placed_where_the_reader_stumbles() {
    check_error("", 1, 1, ParseProblem::End);
    check_error("{agents", 1, 8, ParseProblem::End);
    check_error("not json", 1, 2, ParseProblem::Character('o'));
    check_error("{'agents': undefined}", 1, 12, ParseProblem::Character('u'));
    check_error("{\n  a: 1\n  b: 2\n}", 3, 3, ParseProblem::Character('b'));
    check_error("{} x", 1, 4, ParseProblem::Character('x'));
    check_error("'a\nb'", 2, 0, ParseProblem::Character('\n'));
    check_error("[01]", 1, 3, ParseProblem::Character('1'));
    check_error("'\\1'", 1, 3, ParseProblem::Character('1'));
    check_error("'\\ud800'", 1, 7, ParseProblem::LoneSurrogate);
    check_error("/* open", 1, 8, ParseProblem::End);
    check_error("[1,,2]", 1, 4, ParseProblem::Character(','));
    check_error("{a:.}", 1, 5, ParseProblem::Character('}'));
}

#[test]
fn places_and_spans_point_at_the_written_text() {
    let text = "{\n  a: {b: 'x'},\n}";
    let root = parse(text, FileId(3)).unwrap().root;
    let b = root.get("a").unwrap().get("b").unwrap();
    assert_eq!(b.place, Place { file: FileId(3), line: 2, column: 10 });
    assert_eq!(&text[b.span.start as usize..b.span.end as usize], "'x'");
    let member = &root.as_object().unwrap().members()[0];
    assert_eq!(&text[member.key_span.start as usize..member.key_span.end as usize], "a");
}

#[test]
fn a_repeated_key_is_reported() {
    let parsed = parse("{a: 1, b: {c: 1, c: 2}, a: 3}", FileId(0)).unwrap();
    let keys: Vec<&str> = parsed.repeated.iter().map(|found| found.key.as_str()).collect();
    assert_eq!(keys, ["c", "a"]);
}

#[test]
fn depth_is_capped_in_both_shapes() {
    let deep = |open: &str, close: &str, depth: usize| {
        let text = format!("{}1{}", open.repeat(depth), close.repeat(depth));
        parse(&text, FileId(0)).map(|_| ()).map_err(|error| error.problem)
    };
    assert_eq!(deep("[", "]", MAX_DEPTH), Ok(()));
    assert_eq!(deep("[", "]", MAX_DEPTH + 1), Err(ParseProblem::Depth));
    assert_eq!(deep("{a:", "}", MAX_DEPTH + 1), Err(ParseProblem::Depth));
    assert_eq!(deep("[", "", 1_000_000), Err(ParseProblem::Depth));
}

#[test]
fn size_and_number_of_values_are_capped() {
    let long = format!("'{}'", "a".repeat(MAX_BYTES));
    assert_eq!(parse(&long, FileId(0)).unwrap_err().problem, ParseProblem::Size);
    let many = format!("[{}]", "0,".repeat(MAX_VALUES));
    assert_eq!(parse(&many, FileId(0)).unwrap_err().problem, ParseProblem::Values);
}

/// Any JSON value as text, with JSON5's freedoms mixed in.
fn any_text() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i32>().prop_map(|number| number.to_string()),
        any::<f64>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(|n| format!("{n:?}")),
        "[a-zA-Z0-9 _./:äß-]{0,12}".prop_map(|text| format!("'{text}'")),
        "[a-z \\t]{0,8}".prop_map(|text| format!("\"{}\"", text.replace('\t', "\\t"))),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5)
                .prop_map(|items| format!("[ {} /* c */ ]", items.join(" , "))),
            proptest::collection::vec(("[a-z]{1,6}", inner), 0..5).prop_map(|members| {
                let members: Vec<String> =
                    members.iter().map(|(key, value)| format!("{key}: {value},")).collect();
                format!("{{ // x\n{}}}", members.concat())
            }),
        ]
    })
}

/// What the other reader made of a text, in the same shape.
fn other_shape(value: &serde_json::Value) -> String {
    use serde_json::Value as Other;
    match value {
        Other::Null => "null".to_owned(),
        Other::Bool(value) => value.to_string(),
        Other::Number(number) => format!("{:?}", number.as_f64().unwrap()),
        Other::String(text) => format!("{text:?}"),
        Other::Array(items) => {
            let items: Vec<String> = items.iter().map(other_shape).collect();
            format!("[{}]", items.join(","))
        }
        Other::Object(members) => {
            let members: Vec<String> = members
                .iter()
                .map(|(key, value)| format!("{key:?}:{}", other_shape(value)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}") {
        let _ = parse(&text, FileId(0));
    }

    #[test]
    fn it_agrees_with_another_reader(text in any_text()) {
        let ours = parse(&text, FileId(0)).unwrap().root;
        let theirs: serde_json::Value = json_five::from_str(&text).unwrap();
        prop_assert_eq!(shape(&ours.value), other_shape(&theirs));
    }

    #[test]
    fn it_refuses_what_another_reader_refuses(text in "[\\[\\]{}:,'\"a0. /*-]{0,12}") {
        let ours = parse(&text, FileId(0)).is_ok();
        let theirs = json_five::from_str::<serde_json::Value>(&text).is_ok();
        // It takes some numbers and keys that are none; we take nothing that it refuses.
        prop_assert!(!ours || theirs, "{}", text);
    }

    #[test]
    fn what_it_reads_has_sane_places(text in any_text()) {
        let parsed = parse(&text, FileId(0)).unwrap();
        prop_assert!(parsed.root.span.end as usize <= text.len());
        prop_assert_eq!(parsed.root.place.line >= 1, true);
    }
}
