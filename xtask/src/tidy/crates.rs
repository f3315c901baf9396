//! Which crate may use which: the directions that keep decisions pure and doors thin.

use super::{File, Problem};

const PREFIX: &str = "clawpen-";

/// Each crate and the crates of ours that it may depend on.
const DIRECTIONS: &[(&str, &[&str])] = &[
    ("cli", &["gateway", "engine", "rules", "wire"]),
    ("gateway", &["engine", "rules", "wire"]),
    ("engine", &["os", "rules", "wire"]),
    ("supervisor", &["os", "wire"]),
    ("search", &[]),
    ("rules", &[]),
    ("wire", &[]),
    ("os", &[]),
];

pub(super) fn check(files: &[File]) -> Vec<Problem> {
    files
        .iter()
        .filter_map(|file| {
            let name = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
            (!name.contains('/')).then(|| check_crate(name, file))
        })
        .flatten()
        .collect()
}

fn check_crate(name: &str, file: &File) -> Vec<Problem> {
    let Some((_, allowed)) = DIRECTIONS.iter().find(|(known, _)| *known == name) else {
        let what =
            format!("crate `{name}` has no place yet; give it one in `xtask/src/tidy/crates.rs`");
        return vec![Problem::new(&file.path, 0, what)];
    };
    let mut problems = Vec::new();
    let mut in_dependencies = false;
    for (index, line) in file.text.lines().enumerate() {
        let line = line.trim();
        let used = if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            in_dependencies = section.ends_with("dependencies");
            // `[dependencies.clawpen-x]` names the crate in the section itself.
            section.split_once("dependencies.").map(|(_, name)| name)
        } else {
            let key = line.split(['=', '.', ' ']).next();
            key.filter(|_| in_dependencies)
        };
        let Some(used) = used.and_then(|used| used.strip_prefix(PREFIX)) else { continue };
        if !allowed.contains(&used) {
            let what = format!("`{name}` must not depend on `{used}`");
            problems.push(Problem::new(&file.path, index + 1, what));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_point_one_way() {
        check_one("cli", "[dependencies]\nclawpen-engine.workspace = true\nclap = \"4\"\n", &[]);
        check_one("rules", "[dependencies]\nclawpen-wire = { path = \"../wire\" }\n", &[2]);
        check_one(
            "wire",
            "[package]\nname = \"clawpen-wire\"\n[dev-dependencies]\nclawpen-rules.workspace = true\n",
            &[4],
        );
        check_one("engine", "[target.'cfg(unix)'.dependencies.clawpen-cli]\n", &[1]);
        check_one("stray", "", &[0]);
    }

    #[track_caller]
    fn check_one(name: &str, text: &str, expected: &[usize]) {
        let path = format!("crates/{name}/Cargo.toml");
        let problems = check(&[File { path, text: text.to_owned() }]);
        assert_eq!(problems.iter().map(|problem| problem.line).collect::<Vec<_>>(), expected);
    }
}
