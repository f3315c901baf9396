//! Calls as models write them.

use super::*;

#[test]
fn a_read_takes_a_path_under_any_name_and_numbers_as_texts() {
    let expected = Call::Read(ReadCall { path: "a b".into(), first_line: 7, limit: Some(3) });
    for name in ["path", "file_path", "filePath", "file"] {
        let arguments =
            map(&[(name, text("a b")), ("offset", text(" 7 ")), ("limit", Value::Number(3.0))]);
        assert_eq!(parse(FileTool::Read, &arguments).as_ref(), Ok(&expected), "{name}");
    }
    let plain = Call::Read(ReadCall { path: "x".into(), first_line: 1, limit: None });
    let nulls = map(&[
        ("path", Value::Null),
        ("file", text("x")),
        ("offset", Value::Number(0.0)),
        ("limit", Value::Null),
        ("mood", text("good")),
    ]);
    assert_eq!(parse(FileTool::Read, &nulls), Ok(plain));
}

#[test]
fn what_is_missing_is_named_all_at_once() {
    refuse(
        FileTool::Write,
        &[],
        "`write` lacks `path`, `content`; call it again with every required parameter",
    );
    refuse(
        FileTool::Edit,
        &[("path", text(" "))],
        "`edit` lacks `path`, `oldText`, `newText`; call it again with every required parameter",
    );
    refuse(
        FileTool::Edit,
        &[("path", text("x")), ("new_string", text(""))],
        "`edit` lacks `oldText`; call it again with every required parameter",
    );
    refuse(
        FileTool::ApplyPatch,
        &[("patch", text("x"))],
        "`apply_patch` lacks `input`; call it again with every required parameter",
    );
}

#[test]
fn what_is_of_the_wrong_kind_is_named_with_what_it_should_be() {
    let number = |value| [("path", text("x")), ("limit", value)];
    for bad in [
        Value::Number(0.0),
        Value::Number(1.5),
        Value::Number(-1.0),
        Value::Number(f64::NAN),
        Value::Number(1e300),
        text("many"),
        Value::Bool(true),
    ] {
        refuse(
            FileTool::Read,
            &number(bad),
            "`limit` of `read` must be a whole number, at least 1",
        );
    }
    refuse(FileTool::Read, &[("path", Value::Number(4.0))], "`path` of `read` must be a text");
    refuse(
        FileTool::Grep,
        &[("pattern", text("x")), ("literal", text("yes"))],
        "`literal` of `grep` must be true or false",
    );
    refuse(
        FileTool::Edit,
        &[("path", text("x")), ("edits", text("[]"))],
        "`edits` of `edit` must be a list of {oldText, newText}",
    );
    let half = Value::List(vec![map(&[("oldText", text("a"))])]);
    refuse(
        FileTool::Edit,
        &[("path", text("x")), ("edits", half)],
        "`edits[0]` of `edit` must be {oldText, newText}, both texts",
    );
    assert_eq!(
        parse(FileTool::Find, &Value::List(Vec::new())).unwrap_err().to_string(),
        "the arguments of `find` must be an object"
    );
}

#[test]
fn edits_come_as_a_list_as_a_pair_or_as_both() {
    let item = map(&[("old_string", text("a")), ("newText", text("b"))]);
    let list = ("edits", Value::List(vec![item]));
    let pair = [("oldString", text("c")), ("new_text", text("d"))];
    let first = Edit { old: "a".into(), new: "b".into() };
    let second = Edit { old: "c".into(), new: "d".into() };
    check_edits(std::slice::from_ref(&list), std::slice::from_ref(&first));
    check_edits(&pair, std::slice::from_ref(&second));
    check_edits(&[list, pair[0].clone(), pair[1].clone()], &[first, second]);
}

#[test]
fn blocks_of_text_are_one_text() {
    let block = |inner: &str| map(&[("type", text("text")), ("text", text(inner))]);
    let content = Value::List(vec![
        block("a\n"),
        text("b"),
        map(&[("content", Value::List(vec![block("c")]))]),
    ]);
    let call = parse(FileTool::Write, &map(&[("path", text("x")), ("content", content)]));
    assert_eq!(call, Ok(Call::Write(WriteCall { path: "x".into(), content: "a\nbc".into() })));
}

#[test]
fn searches_have_their_defaults() {
    let call = parse(FileTool::Grep, &map(&[("pattern", text("x"))]));
    let expected = GrepCall {
        pattern: "x".into(),
        path: None,
        glob: None,
        case: Case::Sensitive,
        syntax: Syntax::Regex,
        context: 0,
        limit: None,
    };
    assert_eq!(call, Ok(Call::Grep(expected)));
    assert_eq!(
        parse(FileTool::List, &map(&[])),
        Ok(Call::List(ListCall { path: None, limit: None }))
    );
}

#[track_caller]
fn check_edits(rest: &[(&str, Value)], expected: &[Edit]) {
    let mut members = vec![("path", text("x")), ("dry_run", Value::Bool(true))];
    members.extend(rest.iter().cloned());
    let expected = EditCall { path: "x".into(), edits: expected.to_vec(), run: Run::Dry };
    assert_eq!(parse(FileTool::Edit, &map(&members)), Ok(Call::Edit(expected)));
}

#[track_caller]
fn refuse(tool: FileTool, members: &[(&str, Value)], expected: &str) {
    assert_eq!(parse(tool, &map(members)).unwrap_err().to_string(), expected);
}

fn map(members: &[(&str, Value)]) -> Value {
    Value::Map(members.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}
