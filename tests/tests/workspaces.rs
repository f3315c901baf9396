//! Workspaces through the real binary and real native pens, as root and as an ordinary user.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test without its set-up cannot go on")]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clawpen_tests::home::{Home, Run};
use serde_json::{Value, json};

const NATIVE: &str = "{agents: {defaults: {sandbox: {mode: 'all', backend: 'native'}}}}";
const COPY: &str = ".openclaw/sandboxes/agent-main-f331f052";
const NOBODY: u32 = 65_534;

/// Who runs clawpen, and owns everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Ourselves,
    Ordinary,
}

struct World {
    home: Home,
    program: PathBuf,
    who: Who,
}

impl World {
    fn new(config: &str, who: Who) -> Self {
        let home = Home::with_config(config)
            .with_file(".openclaw/workspace/SOUL.md", "soul 1\n")
            .with_file(".openclaw/workspace/AGENTS.md", "agents 1\n")
            .with_file(".openclaw/workspace/skills/git/SKILL.md", "git 1\n");
        let program = home.path("clawpen");
        let mut copy = Command::new("install");
        copy.args(["-m", "0755"]).arg(home.command(&[]).get_program()).arg(&program);
        assert!(copy.status().expect("install").success());
        let world = Self { home, program, who };
        if world.uid() != 0 && is_root() {
            give_away(&world.home.path(""), world.uid());
        }
        world
    }

    fn uid(&self) -> u32 {
        match self.who {
            Who::Ordinary if is_root() => NOBODY,
            Who::Ourselves | Who::Ordinary => own_uid(),
        }
    }

    fn run(&self, args: &[&str]) -> Run {
        let mut command = Command::new(&self.program);
        command.args(args).env_clear().env("HOME", self.home.path(""));
        command.env("PATH", "/usr/bin:/bin").current_dir(self.home.path(""));
        if is_root() && self.uid() != 0 {
            command.uid(self.uid()).gid(self.uid());
        }
        Run::of(&mut command)
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        let run = self.run(args);
        assert_eq!(run.code, Some(0), "{args:?}: {}", run.stderr);
        run.json()
    }

    #[track_caller]
    fn shell(&self, script: &str) -> String {
        let run = self.run(&["exec", "--", "sh", "-c", script]);
        assert_eq!(run.code, Some(0), "{script}: {}{}", run.stdout, run.stderr);
        run.stdout
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.home.path(path)).ok()
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.home.path(path), text).expect("file");
    }

    fn standings(&self) -> Vec<(String, String)> {
        let answer = self.json(&["sandbox", "explain", "--json"]);
        let seeds = answer["clawpen"]["workspace"]["seeds"].as_array().expect("seeds").clone();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        seeds.iter().map(|seed| (text(&seed["name"]), text(&seed["standing"]))).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Sandboxes outlive whoever asked for them, and only their owner can end them.
        self.run(&["sandbox", "remove", "--all", "--force"]);
    }
}

fn own_uid() -> u32 {
    fs::metadata("/proc/self").expect("proc").uid()
}

fn is_root() -> bool {
    own_uid() == 0
}

fn give_away(path: &Path, uid: u32) {
    chown(path, Some(uid), Some(uid)).expect("chown");
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("directory").flatten() {
            give_away(&entry.path(), uid);
        }
    }
}

fn for_everybody(config: &str, test: fn(&World)) {
    for who in [Who::Ourselves, Who::Ordinary] {
        test(&World::new(config, who));
    }
}

#[test]
fn issue_46026_a_private_workspace_is_seeded_and_writable_on_both_sides() {
    for_everybody(NATIVE, |world| {
        let seen = world.shell("cat SOUL.md AGENTS.md; stat -c '%U %a' SOUL.md; id -un");
        let (text, owners) = seen.split_at("soul 1\nagents 1\n".len());
        assert_eq!(text, "soul 1\nagents 1\n");
        let owners: Vec<&str> = owners.lines().collect();
        assert_eq!(owners[0], format!("{} 644", owners[1]), "{owners:?}");
        world.shell("echo more >> SOUL.md && echo work > new && rm AGENTS.md");
        let soul = world.home.path(&format!("{COPY}/SOUL.md"));
        assert_eq!(world.read(&format!("{COPY}/SOUL.md")).as_deref(), Some("soul 1\nmore\n"));
        assert_eq!(fs::metadata(soul).expect("copy").uid(), world.uid());
        assert_eq!(
            fs::metadata(world.home.path(&format!("{COPY}/new"))).expect("new").uid(),
            world.uid()
        );
        // What is missing is seeded again; what is there is the sandbox's.
        assert_eq!(world.shell("cat AGENTS.md SOUL.md new"), "agents 1\nsoul 1\nmore\nwork\n");
        assert_eq!(world.read(".openclaw/workspace/SOUL.md").as_deref(), Some("soul 1\n"));
    });
}

#[test]
fn issue_34243_skills_stand_in_the_sandbox_where_the_policy_lets_it_read() {
    for_everybody(NATIVE, |world| {
        assert_eq!(world.shell("cat /workspace/skills/git/SKILL.md"), "git 1\n");
        world.write(".openclaw/workspace/skills/git/SKILL.md", "git 2 now\n");
        assert_eq!(world.shell("cat skills/git/SKILL.md"), "git 2 now\n");
    });
    let config = "{agents: {defaults: {sandbox: {mode: 'all', backend: 'native'}}}, tools: {deny: ['read']}}";
    let world = World::new(config, Who::Ourselves);
    assert_eq!(world.shell("ls -A"), "AGENTS.md\nSOUL.md\n");
}

#[test]
fn the_trap_of_seeded_files_is_explained_shown_and_undone() {
    for_everybody(NATIVE, |world| {
        let pair = |name: &str, standing: &str| (name.to_owned(), standing.to_owned());
        let to_seed = [pair("AGENTS.md", "to-seed"), pair("SOUL.md", "to-seed")];
        assert_eq!(world.standings(), to_seed);
        world.shell("echo evolved >> SOUL.md; echo work > work.txt");
        world.write(".openclaw/workspace/AGENTS.md", "agents 2\n");
        let standings = [pair("AGENTS.md", "behind"), pair("SOUL.md", "evolved")];
        assert_eq!(world.standings(), standings);
        let diff = world.json(&["sandbox", "reseed", "--diff", "--json"]);
        assert_eq!(diff["files"][0]["diff"], json!(["  @ line 1", "  - agents 1", "  + agents 2"]));
        assert_eq!(world.standings(), standings, "a difference changes nothing");

        let done = world.json(&["sandbox", "reseed", "--json"]);
        assert_eq!(done["renewed"], json!(["AGENTS.md", "SOUL.md"]));
        assert_eq!(world.shell("cat AGENTS.md SOUL.md work.txt"), "agents 2\nsoul 1\nwork\n");
        let listed = world.json(&["sandbox", "trash", "list", "--json"]);
        assert_eq!(listed["trash"][0]["id"], done["trashed"]);
        assert_eq!(listed["trash"][0]["files"], json!(["AGENTS.md", "SOUL.md"]));
        let id = done["trashed"].as_str().expect("an id");
        let refused = world.run(&["sandbox", "trash", "restore", id]);
        assert_eq!(refused.code, Some(1));
        assert!(refused.stderr.contains("--swap"), "{}", refused.stderr);
        world.json(&["sandbox", "trash", "restore", id, "--swap", "--json"]);
        assert_eq!(world.shell("cat SOUL.md"), "soul 1\nevolved\n");
    });
}

#[test]
fn a_whole_copy_goes_to_the_trash_comes_back_and_is_deleted() {
    for_everybody(NATIVE, |world| {
        // Closed to its own owner, as an agent can do.
        world.shell("mkdir -p d/e && echo work > d/e/f && chmod 0 d/e");
        let done = world.json(&["sandbox", "reseed", "--whole", "--json"]);
        assert_eq!(world.shell("ls"), "AGENTS.md\nSOUL.md\nskills\n");
        let id = done["trashed"].as_str().expect("an id").to_owned();
        let pens = || world.json(&["sandbox", "list", "--json"])["containers"].clone();
        let before = pens();
        let refused = world.run(&["sandbox", "trash", "restore", &id]);
        assert!(refused.code == Some(1) && refused.stderr.contains("--swap"), "{}", refused.stderr);
        assert_eq!(pens()[0]["createdAtMs"], before[0]["createdAtMs"], "a refusal ends nothing");
        world.json(&["sandbox", "trash", "restore", &id, "--swap", "--json"]);
        assert_eq!(world.shell("chmod 700 d/e && cat d/e/f && chmod 0 d/e d"), "work\n");
        let mistyped = world.run(&["sandbox", "trash", "empty", &id, "0000"]);
        assert_eq!(mistyped.code, Some(1));
        assert_eq!(
            world.json(&["sandbox", "trash", "list", "--json"])["trash"][0]["id"],
            json!(id)
        );
        world.json(&["sandbox", "reseed", "--whole", "--json"]);
        let emptied = world.json(&["sandbox", "trash", "empty", "--all", "--json"]);
        assert_eq!(emptied["deleted"].as_array().map(Vec::len), Some(2));
        let run = world.run(&["sandbox", "trash", "list"]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), "the trash is empty\n"));
    });
}

#[test]
fn what_the_sandbox_plants_leads_nowhere() {
    for_everybody(NATIVE, |world| {
        world.write("secret", "secret\n");
        let secret = world.home.path("secret");
        let secret = secret.to_str().expect("UTF-8");
        let plant = format!(
            "rm -rf skills SOUL.md && ln -s {secret} SOUL.md && ln -s {} skills && mkfifo TOOLS.md",
            world.home.path("").display()
        );
        world.shell(&plant);
        world.write(".openclaw/workspace/TOOLS.md", "tools\n");
        world.write(".openclaw/workspace/skills/git/SKILL.md", "git 2 now\n");
        world.json(&["sandbox", "reseed", "--json"]);
        assert_eq!(
            world.shell("cat SOUL.md TOOLS.md skills/git/SKILL.md"),
            "soul 1\ntools\ngit 2 now\n"
        );
        assert_eq!(world.read("secret").as_deref(), Some("secret\n"));
        assert!(!world.home.path("git").exists());
    });
}

#[test]
fn the_shared_sandbox_does_not_see_the_others() {
    let config = "{agents: {defaults: {sandbox: {mode: 'all', backend: 'native'}},
                   list: [{id: 'main'}, {id: 'team', sandbox: {scope: 'shared'}}]}}";
    let world = World::new(config, Who::Ourselves);
    world.shell("echo private > mine.txt");
    let run =
        world.run(&["exec", "--agent", "team", "--", "sh", "-c", "ls -A; echo x > shared.txt"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), ""), "{}", run.stderr);
    assert!(world.home.path(".openclaw/sandboxes/shared/shared.txt").exists());
}

#[test]
fn explain_says_what_persists_for_every_access() {
    for (access, lasts) in [
        ("none", json!(["sandbox", "copy", "sync"])),
        ("ro", json!(["sandbox", "read-only", "read-only"])),
        ("rw", json!(["sandbox", "agent"])),
    ] {
        let config = NATIVE.replace("mode:", &format!("workspaceAccess: '{access}', mode:"));
        let world = World::new(&config, Who::Ourselves);
        let answer = world.json(&["sandbox", "explain", "--json"]);
        let places = answer["clawpen"]["workspace"]["persists"].as_array().expect("places").clone();
        let found: Vec<Value> = places.iter().map(|place| place["lasts"].clone()).collect();
        assert_eq!(json!(found), lasts, "{access}");
        let told = answer["clawpen"]["workspace"]["changeToOriginals"].is_string();
        assert_eq!(told, access != "rw", "{access}");
        assert!(!world.home.path(COPY).exists(), "explaining makes nothing");
    }
}

#[test]
fn own_settings_say_what_becomes_of_removed_workspaces() {
    let world = World::new(NATIVE, Who::Ourselves);
    world.write(
        ".openclaw/clawpen.json",
        "{defaults: {workspaces: {removed: 'keep', trashDays: 9}}}",
    );
    let answer = world.json(&["sandbox", "explain", "--json"]);
    let expected = json!({"removed": "keep", "afterDays": 30, "trashDays": 9});
    assert_eq!(answer["clawpen"]["workspace"]["removed"], expected);
    world.write(".openclaw/clawpen.json", "{defaults: {workspaces: {removed: 'burn'}}}");
    let run = world.run(&["sandbox", "explain"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("defaults.workspaces.removed"), "{}", run.stderr);
}

#[test]
fn as_root_the_copies_mode_keeps_others_out() {
    let world = World::new(NATIVE, Who::Ourselves);
    world.shell("true");
    let mode = |path: &str| {
        fs::metadata(world.home.path(path)).expect("directory").permissions().mode() & 0o7777
    };
    assert_eq!(mode(COPY), 0o700);
    assert_eq!(mode(".openclaw/clawpen/workspaces"), 0o700);
}

const OWN: &str =
    "{agents: {defaults: {sandbox: {mode: 'all', backend: 'native', workspaceAccess: 'rw'}}}}";
const SHOWN: &str = "/workspace/.openclaw/sandbox-skills/skills";

/// A world whose agent works in its own workspace, on a host that has a skill.
fn with_host_skill(config: &str, who: Who) -> World {
    let world = World::new(config, who);
    let skill = world.home.path(".openclaw/skills/tidy");
    fs::create_dir_all(&skill).expect("directory");
    fs::write(skill.join("SKILL.md"), "tidy 1\n").expect("file");
    if is_root() && world.uid() != 0 {
        give_away(&world.home.path(".openclaw/skills"), world.uid());
    }
    world
}

#[test]
fn issues_46257_90410_91761_105854_124555_skills_of_the_host_stand_in_an_agents_own_workspace_and_only_to_be_read()
 {
    for who in [Who::Ourselves, Who::Ordinary] {
        let world = with_host_skill(OWN, who);
        assert_eq!(
            world.shell(&format!("cat {SHOWN}/tidy/SKILL.md skills/git/SKILL.md")),
            "tidy 1\ngit 1\n"
        );
        let first = world.json(&["sandbox", "list", "--json"]);
        for attack in [
            format!("echo x > {SHOWN}/tidy/SKILL.md"),
            format!("echo x > {SHOWN}/new"),
            format!("rm -r {SHOWN}"),
            format!("mv {SHOWN} {SHOWN}-away"),
            format!("chmod 777 {SHOWN}/tidy"),
            "rmdir .openclaw/sandbox-skills".to_owned(),
            "mv .openclaw/sandbox-skills elsewhere".to_owned(),
            "mount --bind /tmp .openclaw/sandbox-skills".to_owned(),
            "umount .openclaw/sandbox-skills".to_owned(),
        ] {
            let run = world.run(&["exec", "--", "sh", "-c", &attack]);
            assert_ne!(run.code, Some(0), "{attack}");
        }
        // What the host changes is seen by the same sandbox, as a whole.
        world.write(".openclaw/skills/tidy/SKILL.md", "tidy 2 now\n");
        assert_eq!(
            world.shell(&format!("cat {SHOWN}/tidy/SKILL.md; ls {SHOWN}")),
            "tidy 2 now\ntidy\n"
        );
        let rows = world.json(&["sandbox", "list", "--json"]);
        let name = |rows: &Value| rows["containers"][0]["createdAtMs"].clone();
        assert_eq!(name(&rows), name(&first));
        assert_eq!(world.read(".openclaw/skills/tidy/SKILL.md").as_deref(), Some("tidy 2 now\n"));
        // Nothing of it is in the agent's workspace itself.
        let place = world.home.path(".openclaw/workspace/.openclaw/sandbox-skills");
        assert_eq!(fs::read_dir(place).expect("mount point").count(), 0);
        let removed = world.run(&["sandbox", "remove", "--all", "--force"]);
        assert_eq!(removed.code, Some(0), "{}", removed.stderr);
        assert!(!world.home.path(".openclaw/sandboxes/agent-main-f331f052.skills").exists());
    }
}

#[test]
fn an_agent_that_shadows_or_denies_a_skill_of_the_host_changes_nothing_about_it() {
    let world = with_host_skill(OWN, Who::Ourselves);
    // A nearer skill of the same name is the agent's own and stands elsewhere.
    world.shell("mkdir -p skills/tidy .agents/skills/tidy; echo evil | tee skills/tidy/SKILL.md .agents/skills/tidy/SKILL.md");
    assert_eq!(world.shell(&format!("cat {SHOWN}/tidy/SKILL.md; ls {SHOWN}")), "tidy 1\ntidy\n");
    let denied = OWN.replace("}}}}", "}}}, tools: {deny: ['read']}}");
    let world = with_host_skill(&denied, Who::Ourselves);
    assert_eq!(world.shell("ls -A .openclaw/sandbox-skills"), "");
}

#[test]
fn what_an_agent_puts_in_the_way_of_the_skills_is_named_and_its_own_sandbox_goes_on() {
    let world = with_host_skill(OWN, Who::Ourselves);
    let outside = world.home.path("outside");
    fs::create_dir(&outside).expect("directory");
    // The mount goes with the directory that holds it; then a link to somewhere else on the host.
    world.shell(&format!("mv .openclaw moved && ln -s {} .openclaw", outside.display()));
    assert_eq!(world.shell("cat moved/sandbox-skills/skills/tidy/SKILL.md"), "tidy 1\n");
    assert_eq!(fs::read_dir(&outside).expect("directory").count(), 0);
    let place = world.home.path(".openclaw/workspace/.openclaw");
    let named = format!("`{}` is no plain directory", place.display());
    // Its sandbox is killed, so the next is made over the link: nothing is mounted anywhere else, whoever looks.
    world.shell("rm .openclaw && ln -s /tmp .openclaw");
    kill_pens(&world.home);
    for when in ["killed", "again"] {
        let refused = world.run(&["exec", "--", "true"]);
        assert!(
            refused.code != Some(0) && refused.stderr.contains(&named),
            "{when}: {}",
            refused.stderr
        );
    }
    assert_eq!(world.json(&["sandbox", "list", "--json"])["containers"], json!([]));
    assert_eq!(fs::read_dir(&outside).expect("directory").count(), 0);
    fs::remove_file(&place).expect("the link");
    assert_eq!(world.shell(&format!("cat {SHOWN}/tidy/SKILL.md")), "tidy 1\n");
}

/// Kills the first process of every pen that has something of a home.
fn kill_pens(home: &Home) {
    let script = "for one in /proc/[0-9]*; do grep -qs \"$1\" $one/mountinfo && \
                  grep -qs '^NSpid:.*[[:space:]]1$' $one/status && kill -9 ${one#/proc/} && \
                  while [ -e $one/exe ]; do :; done; done; true";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(home.path("").to_string_lossy().trim_end_matches('/'));
    assert!(command.status().expect("sh").success());
}

#[test]
fn a_sandbox_in_use_goes_on_when_the_host_gets_its_first_skill() {
    let world = World::new(OWN, Who::Ourselves);
    world.shell("true");
    let answer = world.json(&["sandbox", "explain", "--json"]);
    assert_eq!(
        answer["clawpen"]["runtime"]["mounts"].as_array().map(Vec::len),
        Some(1),
        "{answer}"
    );
    assert!(!world.home.path(".openclaw/workspace/.openclaw").exists());
    let skill = world.home.path(".openclaw/skills/tidy");
    fs::create_dir_all(&skill).expect("directory");
    fs::write(skill.join("SKILL.md"), "tidy 1\n").expect("file");
    let answer = world.json(&["sandbox", "explain", "--json"]);
    let mounts = &answer["clawpen"]["runtime"]["mounts"];
    assert_eq!(mounts[1]["containerRoot"], "/workspace/.openclaw/sandbox-skills", "{mounts}");
    assert_eq!((&mounts[1]["writable"], &mounts[1]["source"]), (&json!(false), &json!("skills")));
    let run = world.run(&["exec", "--", "echo", "still here"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "still here\n"), "{}", run.stderr);
    assert!(run.stderr.contains("recreate"), "{}", run.stderr);
    let recreated = world.run(&["sandbox", "recreate", "--all", "--force"]);
    assert_eq!(recreated.code, Some(0), "{}", recreated.stderr);
    assert_eq!(world.shell(&format!("cat {SHOWN}/tidy/SKILL.md")), "tidy 1\n");
}
