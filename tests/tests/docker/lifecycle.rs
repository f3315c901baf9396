//! Containers that outlive the process that made them, through the real binary.

use std::process::Stdio;

use anyhow::Result;
use clawpen_tests::docker::BASE;
use clawpen_tests::home::Run;
use serde_json::{Value, json};

use crate::container::docker;
use crate::yard::Yard;

#[test]
fn a_container_is_found_again_and_started_when_it_stopped() -> Result<()> {
    let Some(yard) = Yard::new("setupCommand: 'echo once >> /workspace/setups'")? else {
        return Ok(());
    };
    yard.sh("echo kept > /tmp/note");
    assert_eq!(yard.sh("cat /tmp/note setups"), "kept\nonce\n");
    let made = yard.containers()?;
    assert_eq!(made.len(), 1);
    docker(&yard.place, &["stop", "--time", "0", &made[0]]).output()?;
    assert_eq!(yard.rows()[0]["clawpen"]["state"], json!("stopped"));
    // The same container, proven anew; its setup has run.
    assert_eq!(yard.sh("cat setups; test ! -e /tmp/note"), "once\n");
    assert_eq!(yard.containers()?, made);
    let removed = yard.run(&["sandbox", "remove", "--all", "--force"]);
    assert_eq!(removed.code, Some(0), "{}", removed.stdout);
    assert_eq!(yard.containers()?, Vec::<String>::new());
    Ok(())
}

#[test]
fn a_container_that_was_changed_while_it_stood_is_removed_and_never_used() -> Result<()> {
    let Some(yard) = Yard::new("pidsLimit: 100")? else { return Ok(()) };
    yard.sh("true");
    let made = yard.containers()?;
    docker(&yard.place, &["stop", "--time", "0", &made[0]]).output()?;
    docker(&yard.place, &["update", "--pids-limit", "200", &made[0]]).output()?;
    let run = yard.run(&["exec", "--", "true"]);
    assert_eq!(run.code, Some(125), "{}", run.stdout);
    assert!(run.stderr.contains("200"), "{}", run.stderr);
    assert_eq!(yard.containers()?, Vec::<String>::new());
    assert_eq!(yard.sh("echo new"), "new\n");
    Ok(())
}

#[test]
fn a_missing_image_that_is_none_of_ours_is_not_made() -> Result<()> {
    let Some(yard) = Yard::new("image: 'clawpen-test-none:latest'")? else { return Ok(()) };
    let run = yard.run(&["exec", "--build", "--", "true"]);
    assert_eq!(run.code, Some(125));
    assert!(run.stderr.contains("clawpen-test-none:latest"), "{}", run.stderr);
    assert_eq!((yard.rows().len(), yard.containers()?.len()), (0, 0));
    Ok(())
}

#[test]
fn fifty_first_calls_at_once_share_one_container_115252() -> Result<()> {
    let Some(yard) = Yard::new("")? else { return Ok(()) };
    let start = |_| {
        let mut command = yard.command(&["exec", "--", "readlink", "/proc/self/ns/pid"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    };
    let calls: Vec<_> = (0..50).map(start).collect::<std::io::Result<_>>()?;
    let mut seen = Vec::new();
    for call in calls {
        let output = call.wait_with_output()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        seen.push(output.stdout);
    }
    seen.dedup();
    assert_eq!((seen.len(), yard.containers()?.len()), (1, 1));
    Ok(())
}

#[test]
fn fresh_containers_stand_beside_the_scopes_own() -> Result<()> {
    let Some(yard) = Yard::new("")? else { return Ok(()) };
    let own = yard.sh("readlink /proc/self/ns/pid");
    let fresh = yard.run(&["exec", "--fresh", "--", "readlink", "/proc/self/ns/pid"]);
    assert_eq!(fresh.code, Some(0), "{}", fresh.stderr);
    assert_ne!(own, fresh.stdout);
    assert_eq!(yard.containers()?.len(), 1);
    Ok(())
}

#[test]
fn a_name_that_is_somebody_elses_is_an_error_and_left_alone_51363() -> Result<()> {
    let Some(yard) = Yard::new("")? else { return Ok(()) };
    docker(&yard.place, &["create", "--name", &yard.name(), BASE, "sleep", "1"]).output()?;
    let theirs = yard.containers()?;
    let run = yard.run(&["exec", "--", "true"]);
    assert_eq!(run.code, Some(125));
    assert!(run.stderr.contains("left alone"), "{}", run.stderr);
    assert_eq!(yard.rows(), Vec::<Value>::new());
    let removed = yard.run(&["sandbox", "remove", "--all", "--force", "--adopt"]);
    assert!(removed.stdout.contains("No sandbox matches."), "{}", removed.stdout);
    assert_eq!(yard.containers()?, theirs);
    Ok(())
}

#[test]
fn the_references_containers_are_listed_and_touched_only_when_adopted() -> Result<()> {
    let Some(yard) = Yard::new("")? else { return Ok(()) };
    let name = yard.name();
    let label = ["--label", "openclaw.sandbox=1"];
    docker(&yard.place, &["create", "--name", &name, label[0], label[1], BASE, "sleep", "1"])
        .output()?;
    let entry = json!({
        "containerName": name, "sessionKey": "agent:main", "createdAtMs": 1, "lastUsedAtMs": 2,
        "image": BASE,
    });
    let registry = yard.home.path(".openclaw/sandbox");
    std::fs::create_dir_all(&registry)?;
    std::fs::write(registry.join("containers.json"), json!({ "entries": [entry] }).to_string())?;
    let run = yard.run(&["exec", "--", "true"]);
    assert_eq!(run.code, Some(125));
    assert!(run.stderr.contains("--adopt"), "{}", run.stderr);
    assert_eq!(yard.rows()[0]["clawpen"]["madeBy"], json!("reference"));
    let untouched = yard.run(&["sandbox", "remove", "--all", "--force"]);
    assert!(untouched.stdout.contains("No sandbox matches."), "{}", untouched.stdout);
    assert_eq!(yard.containers()?.len(), 1);
    let adopted = yard.run(&["sandbox", "remove", "--all", "--force", "--adopt"]);
    assert!(adopted.stdout.contains("Done: 1 removed"), "{}", adopted.stdout);
    assert_eq!(yard.containers()?, Vec::<String>::new());
    assert_eq!(yard.sh("echo ours"), "ours\n");
    Ok(())
}

#[test]
fn a_failed_setup_command_leaves_no_container_143685() -> Result<()> {
    let Some(yard) = Yard::new("setupCommand: 'echo no >&2; exit 9'")? else { return Ok(()) };
    let run = yard.run(&["exec", "--", "true"]);
    assert_eq!(run.code, Some(125));
    assert!(run.stderr.contains("code 9: no"), "{}", run.stderr);
    assert_eq!((yard.rows().len(), yard.containers()?.len()), (0, 0));
    Ok(())
}

#[test]
fn an_engine_that_is_gone_is_no_reason_to_forget_a_row() -> Result<()> {
    let Some(yard) = Yard::new("")? else { return Ok(()) };
    yard.sh("true");
    // Its row says where it is, so another engine in the environment changes nothing.
    let mut command = yard.home.command(&["sandbox", "list", "--json"]);
    let elsewhere = Run::of(command.env("DOCKER_HOST", "unix:///nowhere/docker.sock"));
    assert_eq!(elsewhere.json()["containers"][0]["running"], json!(true));
    assert_eq!(elsewhere.json()["clawpen"]["problems"], json!([]));
    assert_eq!(yard.rows().len(), 1);
    Ok(())
}

#[test]
fn skills_of_the_host_stand_in_an_agents_own_workspace_and_only_to_be_read() -> Result<()> {
    let Some(yard) = Yard::new("")? else { return Ok(()) };
    let skill = yard.home.path(".openclaw/skills/tidy");
    std::fs::create_dir_all(&skill)?;
    std::fs::write(skill.join("SKILL.md"), "tidy 1\n")?;
    let shown = "/workspace/.openclaw/sandbox-skills/skills";
    assert_eq!(yard.sh(&format!("cat {shown}/tidy/SKILL.md")), "tidy 1\n");
    let before = yard.containers()?;
    for attack in [
        format!("echo x > {shown}/tidy/SKILL.md"),
        format!("echo x > {shown}/new"),
        format!("mv {shown} {shown}-away"),
        "mv .openclaw/sandbox-skills elsewhere".to_owned(),
    ] {
        let run = yard.run(&["exec", "--", "sh", "-c", &attack]);
        assert_ne!(run.code, Some(0), "{attack}");
    }
    std::fs::write(skill.join("SKILL.md"), "tidy 2 now\n")?;
    assert_eq!(yard.sh(&format!("cat {shown}/tidy/SKILL.md")), "tidy 2 now\n");
    assert_eq!(yard.containers()?, before);
    assert_eq!(std::fs::read_dir(yard.work(".openclaw/sandbox-skills"))?.count(), 0);
    let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(yard.work(".openclaw"))?);
    assert_eq!(owner, 1000);
    Ok(())
}

#[test]
fn a_registry_that_is_rebuilt_asks_engines_that_the_environment_does_not_name() -> Result<()> {
    let Some(yard) = Yard::new("")? else { return Ok(()) };
    yard.sh("true");
    let before = yard.containers()?;
    for end in ["", "-wal", "-shm"] {
        let file = yard.home.path(&format!(".openclaw/clawpen/clawpen.db{end}"));
        if file.exists() {
            std::fs::write(file, "this is no database at all, and long enough to be seen as one")?;
        }
    }
    // Without a word about the engine.
    let repaired = yard.home.run(&["doctor", "--repair", "--yes", "--json"]);
    assert_eq!(repaired.code, Some(0), "{}{}", repaired.stdout, repaired.stderr);
    let rows = yard.home.run(&["sandbox", "list", "--json"]).json();
    assert_eq!(rows["containers"].as_array().map(Vec::len), Some(1), "{rows}");
    yard.sh("true");
    assert_eq!(yard.containers()?, before);
    Ok(())
}
