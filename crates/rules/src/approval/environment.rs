//! Decides which variables a command on the host gets.
//!
//! Takes the gateway's own variables and those that a call wants to set; gives the environment, or
//! the first variable that may not be set. A call may only set names that are known to be harmless,
//! and those that the operator added: a list of dangerous names lost that race again and again. What
//! is inherited loses everything that could change which code a program runs.

use std::collections::BTreeMap;

/// What a call may set.
const HARMLESS: [&str; 6] = ["TERM", "LANG", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "TZ"];
const HARMLESS_START: &str = "LC_";

/// What is not inherited: each changes which code an interpreter, a loader or a tool runs.
const DROPPED: [&str; 79] = [
    "ANT_OPTS",
    "BASHOPTS",
    "BASH_ENV",
    "BUNDLE_GEMFILE",
    "CARGO_BUILD_RUSTC_WRAPPER",
    "CLASSPATH",
    "CORECLR_ENABLE_PROFILING",
    "CORECLR_PROFILER",
    "CORECLR_PROFILER_PATH",
    "CVS_RSH",
    "DOTNET_ADDITIONAL_DEPS",
    "DOTNET_STARTUP_HOOKS",
    "ENV",
    "EXINIT",
    "GCONV_PATH",
    "GIT_ASKPASS",
    "GIT_EDITOR",
    "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_PROXY_COMMAND",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_TEMPLATE_DIR",
    "GLIBC_TUNABLES",
    "GNUMAKEFLAGS",
    "GRADLE_OPTS",
    "HOSTALIASES",
    "IFS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "LESSCLOSE",
    "LESSOPEN",
    "LOCPATH",
    "LUA_CPATH",
    "LUA_INIT",
    "LUA_PATH",
    "MAKEFLAGS",
    "MANOPT",
    "MANPAGER",
    "MAVEN_OPTS",
    "NLSPATH",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_REPL_EXTERNAL_MODULE",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
    "PERL5DB",
    "PERL5DBCMD",
    "PERL5LIB",
    "PERL5OPT",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "PROMPT_COMMAND",
    "PS4",
    "PYTHONBREAKPOINT",
    "PYTHONHOME",
    "PYTHONINSPECT",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PYTHONUSERBASE",
    "PYTHONWARNINGS",
    "RSYNC_RSH",
    "RUBYGEMS_GEMDEPS",
    "RUBYLIB",
    "RUBYOPT",
    "RUSTC",
    "RUSTC_WRAPPER",
    "SBT_OPTS",
    "SHELL",
    "SHELLOPTS",
    "SSH_ASKPASS",
    "SSLKEYLOGFILE",
    "SVN_SSH",
    "TAR_OPTIONS",
    "VIMINIT",
    "_JAVA_OPTIONS",
];
/// Beginnings of names that are not inherited; the last one is the gateway's own business.
const DROPPED_STARTS: [&str; 7] =
    ["DYLD_", "LD_", "BASH_FUNC_", "GIT_CONFIG_", "NPM_CONFIG_", "LUA_INIT_", "OPENCLAW_"];

/// Why a call does not get its variables.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentRefused {
    #[error("`{name}` is no name of a variable")]
    Name { name: String },
    #[error("a call may not set `PATH`; the operator extends it with `tools.exec.pathPrepend`")]
    Path,
    #[error("a call may not set `{name}` on the host; it may set TERM, LANG, LC_…, TZ and colours")]
    NotHarmless { name: String },
    #[error("the value of `{name}` holds a NUL character")]
    Nul { name: String },
    #[error(
        "the value of `{name}` is a path, and a program would read that file; give a plain name"
    )]
    NamesFile { name: String },
}

/// What the environment is made from.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    pub inherited: &'a BTreeMap<String, String>,
    /// What the call wants to set.
    pub overrides: &'a BTreeMap<String, String>,
    /// Names that the operator lets calls set besides the harmless ones.
    pub operator_allows: &'a [String],
    /// Directories that the operator puts before `PATH`.
    pub path_prepend: &'a [String],
}

/// Decides the environment of a command on the host.
pub fn decide(parts: &Parts<'_>) -> Result<BTreeMap<String, String>, EnvironmentRefused> {
    let inherited = parts.inherited.iter().filter(|(name, _)| !is_dropped(name));
    let mut environment: BTreeMap<String, String> =
        inherited.map(|(name, value)| (name.clone(), value.clone())).collect();
    for (name, value) in parts.overrides {
        check_override(name, value, parts.operator_allows)?;
        environment.insert(name.clone(), value.clone());
    }
    if !parts.path_prepend.is_empty() {
        let path = environment.remove("PATH").unwrap_or_default();
        let first =
            parts.path_prepend.iter().map(String::as_str).filter(|dir| dir.starts_with('/'));
        let all: Vec<&str> = first.chain([path.as_str()]).filter(|dir| !dir.is_empty()).collect();
        environment.insert("PATH".to_owned(), all.join(":"));
    }
    Ok(environment)
}

fn check_override(
    name: &str,
    value: &str,
    operator_allows: &[String],
) -> Result<(), EnvironmentRefused> {
    let owned = || name.to_owned();
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !starts_well || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err(EnvironmentRefused::Name { name: owned() });
    }
    if value.contains('\0') {
        return Err(EnvironmentRefused::Nul { name: owned() });
    }
    let upper = name.to_ascii_uppercase();
    if upper == "PATH" {
        return Err(EnvironmentRefused::Path);
    }
    // Not even the operator's list brings in what would be dropped from his own environment.
    let is_listed = operator_allows.iter().any(|allowed| allowed == name);
    let is_harmless = HARMLESS.contains(&upper.as_str()) || upper.starts_with(HARMLESS_START);
    if is_dropped(name) || !(is_harmless || is_listed) {
        return Err(EnvironmentRefused::NotHarmless { name: owned() });
    }
    if is_harmless && names_file(&upper, value) {
        return Err(EnvironmentRefused::NamesFile { name: owned() });
    }
    Ok(())
}

/// Locales, terminals and time zones are files: a name may choose one of the system's, a path may not
/// bring another.
fn names_file(upper: &str, value: &str) -> bool {
    match upper {
        "TZ" => value.starts_with([':', '/']) || value.contains(".."),
        _ => value.contains('/'),
    }
}

/// Compared without regard to case: some programs read names that way.
fn is_dropped(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    DROPPED.contains(&upper.as_str()) || DROPPED_STARTS.iter().any(|start| upper.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn decide_with(
        inherited: &[(&str, &str)],
        overrides: &[(&str, &str)],
        operator_allows: &[&str],
    ) -> Result<BTreeMap<String, String>, EnvironmentRefused> {
        let owned: Vec<String> = operator_allows.iter().map(|name| (*name).to_owned()).collect();
        decide(&Parts {
            inherited: &map(inherited),
            overrides: &map(overrides),
            operator_allows: &owned,
            path_prepend: &[],
        })
    }

    #[test]
    fn b19_a_call_sets_only_what_is_known_to_be_harmless() {
        for name in [
            "GIT_SSH_COMMAND",
            "HOME",
            "ZDOTDIR",
            "SHELLOPTS",
            "PS4",
            "BASH_ENV",
            "LD_PRELOAD",
            "VIMINIT",
            "ld_preload",
            "OPENCLAW_HOME",
            "EDITOR",
            "PAGER",
            "NEW_IN_NEXT_RELEASE",
        ] {
            let refused = Err(EnvironmentRefused::NotHarmless { name: name.to_owned() });
            assert_eq!(decide_with(&[], &[(name, "x")], &[]), refused, "{name}");
        }
        for name in ["TERM", "LANG", "LC_ALL", "TZ", "NO_COLOR"] {
            assert_eq!(decide_with(&[], &[(name, "x")], &[]), Ok(map(&[(name, "x")])), "{name}");
        }
    }

    #[test]
    fn b19_a_harmless_name_takes_no_path() {
        for (name, value) in [
            ("TERM", "../../x"),
            ("LANG", "/tmp/evil"),
            ("LC_ALL", "a/b"),
            ("TZ", ":/etc/passwd"),
            ("TZ", "/etc/passwd"),
            ("TZ", "../x"),
        ] {
            let refused = Err(EnvironmentRefused::NamesFile { name: name.to_owned() });
            assert_eq!(decide_with(&[], &[(name, value)], &[]), refused, "{name}={value}");
        }
        for (name, value) in [("TZ", "Europe/Berlin"), ("LANG", "de_DE.UTF-8"), ("TERM", "xterm")] {
            assert!(decide_with(&[], &[(name, value)], &[]).is_ok(), "{name}={value}");
        }
    }

    #[test]
    fn b19_what_is_inherited_loses_whatever_steers_code() {
        let inherited = [
            ("PATH", "/usr/bin"),
            ("HOME", "/h"),
            ("NODE_OPTIONS", "--require=/x"),
            ("LD_AUDIT", "/x"),
            ("BASH_FUNC_ls%%", "() { id; }"),
            ("GIT_CONFIG_COUNT", "1"),
            ("OPENCLAW_GATEWAY_TOKEN", "t"),
        ];
        let kept = map(&[("PATH", "/usr/bin"), ("HOME", "/h")]);
        assert_eq!(decide_with(&inherited, &[], &[]), Ok(kept));
    }

    #[test]
    fn b19_not_even_the_operators_list_brings_loaders_in() {
        assert!(decide_with(&[], &[("CI", "1")], &["CI"]).is_ok());
        assert!(decide_with(&[], &[("CI", "1")], &[]).is_err());
        assert!(decide_with(&[], &[("LD_PRELOAD", "/x")], &["LD_PRELOAD"]).is_err());
        let odd = Err(EnvironmentRefused::Name { name: "A=B".to_owned() });
        assert_eq!(decide_with(&[], &[("A=B", "x")], &["A=B"]), odd);
        let nul = Err(EnvironmentRefused::Nul { name: "TERM".to_owned() });
        assert_eq!(decide_with(&[], &[("TERM", "a\0b")], &[]), nul);
    }

    #[test]
    fn b14_a_call_never_sets_the_search_path_and_the_operator_adds_absolute_directories() {
        assert_eq!(decide_with(&[], &[("PATH", "/x")], &["PATH"]), Err(EnvironmentRefused::Path));
        assert_eq!(decide_with(&[], &[("Path", "/x")], &[]), Err(EnvironmentRefused::Path));
        let prepend = ["/opt/bin".to_owned(), "bin".to_owned(), String::new()];
        let found = decide(&Parts {
            inherited: &map(&[("PATH", "/usr/bin")]),
            overrides: &map(&[]),
            operator_allows: &[],
            path_prepend: &prepend,
        });
        assert_eq!(found, Ok(map(&[("PATH", "/opt/bin:/usr/bin")])));
    }
}
