//! Which paths fit which patterns.

use proptest::prelude::*;

use super::*;

use Fit::{Fits, Misses};

#[derive(Debug, PartialEq, Eq)]
enum Fit {
    Fits,
    Misses,
}

#[track_caller]
fn check(pattern: &str, path: &str, expected: Fit) {
    let fits = Pattern::compile(pattern, Some("/home/u")).matches(path);
    assert_eq!(if fits { Fits } else { Misses }, expected, "`{pattern}` on `{path}`");
}

#[test]
fn stars_and_marks_stop_at_slashes() {
    check("/usr/bin/*", "/usr/bin/ls", Fits);
    check("/usr/bin/*", "/usr/bin/sub/ls", Misses);
    check("/usr/bin/**", "/usr/bin/sub/ls", Fits);
    check("/usr/**/ls", "/usr/bin/ls", Fits);
    check("/usr/**/ls", "/usr/ls", Misses);
    check("/usr/bin/l?", "/usr/bin/ls", Fits);
    check("/usr?bin/ls", "/usr/bin/ls", Misses);
    check("/*/*/*", "/a/b/c", Fits);
}

#[test]
fn the_whole_path_must_fit() {
    check("/usr/bin/l", "/usr/bin/ls", Misses);
    check("bin/ls", "/usr/bin/ls", Misses);
    check("/usr/bin/ls -la", "/usr/bin/ls", Misses);
    check("/USR/bin/ls", "/usr/bin/ls", Misses);
    check(" /usr/bin/ls ", "/usr/bin/ls", Fits);
}

#[test]
fn names_match_nothing_and_a_lone_star_everything() {
    check("ls", "ls", Misses);
    check("", "", Misses);
    check("**", "/usr/bin/ls", Misses);
    check("*", "/usr/bin/ls", Fits);
    check(" * ", "/usr/bin/ls", Fits);
}

#[test]
fn a_leading_tilde_is_the_home() {
    check("~", "/home/u", Fits);
    check("~/bin/*", "/home/u/bin/x", Fits);
    check("~/x", "~/x", Misses);
    check("~user/x", "~user/x", Fits);
    assert!(!Pattern::compile("~/x", None).matches("/home/u/x"));
}

#[test]
fn many_stars_cost_no_backtracking() {
    let pattern = format!("/{}b", "**a".repeat(200));
    check(&pattern, &format!("/{}", "a".repeat(2_000)), Misses);
}

proptest! {
    #[test]
    fn b12_equals_the_obvious_recursive_matcher(pattern in "/[a/*?é]{0,8}", path in "/[a/é]{0,10}") {
        let (tokens, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), path.chars().collect());
        prop_assert_eq!(Pattern::compile(&pattern, None).matches(&path), naive(&tokens, &text));
    }

    #[test]
    fn b12_a_pattern_without_stars_matches_itself_only(pattern in "/[a-z.\\[\\]{}()+^$|]{0,8}", path in "/[a-z.\\[\\]{}()+^$|]{0,8}") {
        prop_assert_eq!(Pattern::compile(&pattern, None).matches(&path), pattern == path);
        prop_assert!(Pattern::compile(&pattern, None).matches(&pattern));
    }
}

fn naive(pattern: &[char], path: &[char]) -> bool {
    match pattern {
        [] => path.is_empty(),
        ['*', '*', rest @ ..] => (0..=path.len()).any(|skip| naive(rest, &path[skip..])),
        ['*', rest @ ..] => {
            let most = path.iter().position(|c| *c == '/').unwrap_or(path.len());
            (0..=most).any(|skip| naive(rest, &path[skip..]))
        }
        ['?', rest @ ..] => {
            matches!(path, [first, path @ ..] if *first != '/' && naive(rest, path))
        }
        [wanted, rest @ ..] => {
            matches!(path, [first, path @ ..] if first == wanted && naive(rest, path))
        }
    }
}
