//! What a command and a file call find in a container that was proven.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clawpen_engine::backend::docker::{DockerFailure, Pen};
use clawpen_engine::channel::{Captured, Command, WriteOptions};
use clawpen_engine::supervisor_image;
use clawpen_rules::facts::{Fact, Holds};
use clawpen_tests::docker::{Place, SCRATCH};
use clawpen_wire::pen::Lifetime;
use clawpen_wire::supervisor::{End, Links, Place as In, StdinMode};

use crate::container::{docker, left_over};

/// A pen of `place`; its workspace belongs to the container's user.
fn start(place: &Place, config: &str) -> Result<Pen> {
    place.owned_by(1000, 1000)?;
    let backend = place.backend(supervisor_image::IMAGE)?;
    Ok(Pen::start(&backend, &place.spec(config)?, Lifetime::UntilDisconnect)?)
}

/// What a command did: how it ended and what it wrote.
pub(crate) fn run(pen: &mut Pen, argv: &[&str]) -> Result<(End, String, String)> {
    let mut output = Captured::new(64 * 1024);
    let exited = pen.channel()?.exec(&Command::new(argv), &mut output)?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok((exited.end, text(output.stdout), text(output.stderr)))
}

/// A shell script that has to succeed; what it wrote.
pub(crate) fn sh(pen: &mut Pen, script: &str) -> Result<String> {
    let (end, stdout, stderr) = run(pen, &["/bin/sh", "-c", script])?;
    assert_eq!(end, End::Code(0), "{script}: {stdout}{stderr}");
    Ok(stdout)
}

#[test]
fn commands_run_with_their_output_input_and_exit_code() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let mut pen = start(&place, "{}")?;
    let nothing = (End::Code(0), String::new(), String::new());
    assert_eq!(run(&mut pen, &["/bin/true"])?, nothing);
    assert_eq!(run(&mut pen, &["true"])?, nothing);
    let told = (End::Code(7), "out\n".to_owned(), "err\n".to_owned());
    assert_eq!(run(&mut pen, &["sh", "-c", "echo out; echo err >&2; exit 7"])?, told);
    let killed = run(&mut pen, &["sh", "-c", "kill -KILL $$"])?;
    assert_eq!(killed.0, End::Signal(9));
    let mut command = Command::new(["cat"]);
    command.stdin = StdinMode::Pipe;
    let mut echoed = Captured::new(1024).with_input(b"there and back".to_vec());
    pen.channel()?.exec(&command, &mut echoed)?;
    assert_eq!(echoed.stdout, b"there and back");
    pen.remove()?;
    assert_eq!(left_over(&place)?, "");
    Ok(())
}

#[test]
fn a_command_is_the_containers_user_with_its_variables_and_nothing_more() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let mut pen = start(&place, "{env: {A: 'b c', MY_TOKEN: 'hush'}, user: '1000:1000'}")?;
    assert_eq!(sh(&mut pen, "id -u; id -g; pwd")?, "1000\n1000\n/workspace\n");
    let mut names: Vec<String> = sh(&mut pen, "env | sort")?.lines().map(str::to_owned).collect();
    // The shell's own.
    names.retain(|line| !line.starts_with("_=") && !line.starts_with("SHLVL="));
    let expected = [
        "A=b c",
        "HOME=/workspace",
        "OPENCLAW_CLI=1",
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PWD=/workspace",
    ];
    assert_eq!(names, expected);
    let status = sh(&mut pen, "cat /proc/self/status")?;
    for line in [
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
        // The engine's and, stacked on it, ours.
        "Seccomp_filters:\t2",
    ] {
        assert!(status.lines().any(|found| found == line), "{line}\n{status}");
    }
    Ok(())
}

#[test]
fn what_the_engine_leaves_of_capabilities_is_given_up() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    for config in
        ["{capDrop: ['NET_RAW'], user: '1000:1000'}", "{capDrop: ['NET_RAW'], user: '0:0'}"]
    {
        let mut pen = start(&place, config)?;
        let status = sh(&mut pen, "cat /proc/self/status")?;
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            let line = format!("{set}:\t0000000000000000");
            assert!(status.lines().any(|found| found == line), "{config}: {status}");
        }
        pen.remove()?;
    }
    Ok(())
}

#[test]
fn an_images_user_is_found_by_name() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let mut pen = start(&place, "{user: 'games:audio'}")?;
    assert_eq!(sh(&mut pen, "id -un; id -gn")?, "games\naudio\n");
    let backend = place.backend(supervisor_image::IMAGE)?;
    let spec = place.spec("{user: 'nobody-here'}")?;
    pen.remove()?;
    let failure = Pen::start(&backend, &spec, Lifetime::UntilDisconnect).unwrap_err().cause;
    let said = failure.to_string();
    assert!(said.contains("nobody-here"), "{said}");
    assert_eq!(left_over(&place)?, "");
    Ok(())
}

#[test]
fn a_container_that_stopped_comes_back_as_the_same_user() -> Result<()> {
    for (user, ids) in [("games:audio", "5\n29\n"), ("games", "5\n60\n"), ("5", "5\n60\n")] {
        let Some(place) = Place::new()? else { return Ok(()) };
        let backend = place.backend(supervisor_image::IMAGE)?;
        let spec = place.spec(&format!("{{user: '{user}'}}"))?;
        let mut pen = Pen::start(&backend, &spec, Lifetime::Persistent)?;
        assert_eq!(sh(&mut pen, "id -u; id -g")?, ids, "{user}");
        drop(pen);
        docker(&place, &["stop", "--time", "0", &place.name()?]).output()?;
        let mut pen = Pen::restart(&backend, &place.name()?, &spec)?.context("it is ours")?;
        assert_eq!(sh(&mut pen, "id -u; id -g")?, ids, "{user}");
        drop(pen);
        docker(&place, &["rm", "--force", &place.name()?]).output()?;
    }
    Ok(())
}

/// The engine looks a name up at every start, in files that the command may have written.
#[test]
fn a_command_that_writes_the_list_of_users_is_nobody_else_after_a_restart() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let backend = place.backend(supervisor_image::IMAGE)?;
    // As in an image whose list can be written: the file is another one when the container returns.
    let spec = place.spec("{user: 'games', readOnlyRoot: false}")?;
    let mut pen = Pen::start(&backend, &spec, Lifetime::Persistent)?;
    assert_eq!(sh(&mut pen, "id -u")?, "5\n");
    drop(pen);
    let name = place.name()?;
    docker(&place, &["stop", "--time", "0", &name]).output()?;
    let list = place.path("passwd");
    fs::write(&list, "games:x:0:0::/:/bin/sh\n")?;
    let to = format!("{name}:/etc/passwd");
    let list = list.to_str().context("text")?;
    // A stopped container's files are reached only with all that is mounted in it.
    let run = fs::read_dir(place.path("home/run"))?.next().context("its place")??;
    fs::create_dir_all(run.path().join("inside"))?;
    let copied = docker(&place, &["cp", list, &to]).output()?;
    assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    let refused = Pen::restart(&backend, &name, &spec).map(|_| ()).unwrap_err();
    let said = refused.cause.to_string();
    assert!(said.contains("0:0") && said.contains("5:60"), "{said}");
    docker(&place, &["rm", "--force", &name]).output()?;
    Ok(())
}

#[test]
fn only_the_workspace_and_memory_can_be_written() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let mut pen = start(&place, "{}")?;
    for path in ["/x", "/etc/x", "/usr/x", "/.clawpen/x", "/.clawpen/run/x", "/.clawpen/supervisor"]
    {
        let (end, _, _) = run(&mut pen, &["sh", "-c", &format!("echo x > {path}")])?;
        assert_ne!(end, End::Code(0), "{path}");
    }
    // Not `/run`: an engine gives a tmpfs the owner and mode of the image's directory.
    sh(&mut pen, "for d in /workspace /tmp /var/tmp; do echo x > $d/x; done")?;
    assert_eq!(sh(&mut pen, "ls -A /.clawpen/run")?, "");
    let made = fs::metadata(place.path("workspace/x"))?;
    assert_eq!((made.uid(), made.gid()), (1000, 1000));
    Ok(())
}

#[test]
fn there_is_no_network() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let mut pen = start(&place, "{}")?;
    let listed = sh(&mut pen, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '")?;
    assert_eq!(listed, "lo\n");
    // Docker's own filter lets this one through, and no namespace confines it.
    let script = "import socket; socket.socket(socket.AF_VSOCK)";
    let (end, _, stderr) = run(&mut pen, &["python3", "-c", script])?;
    assert_ne!(end, End::Code(0), "{stderr}");
    Ok(())
}

#[test]
fn files_go_in_and_out() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let mut pen = start(&place, "{}")?;
    let channel = pen.channel()?;
    let below = |path: &str| In::Below { root: 0, path: path.into() };
    let contents: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    channel.write(below("big"), WriteOptions::default(), &mut contents.as_slice())?;
    assert_eq!(fs::read(place.path("workspace/big"))?, contents);
    let mut back = Vec::new();
    channel.read(In::InPen("/workspace/big".into()), 4, 1_199_992, &mut back)?;
    assert_eq!(back, contents[4..1_199_996]);
    assert_eq!(channel.stat(below("big"), Links::Follow)?.metadata.size, 1_200_000);
    let mut os = Vec::new();
    channel.read(In::InPen("/etc/debian_version".into()), 0, 100, &mut os)?;
    assert!(os.starts_with(b"12"), "{os:?}");
    let outside =
        channel.write(In::InPen("/etc/x".into()), WriteOptions::default(), &mut &b"x"[..]);
    assert!(outside.is_err());
    let escaping = channel.read(below("../etc/passwd"), 0, 10, &mut Vec::new());
    assert!(escaping.is_err());
    Ok(())
}

#[test]
fn a_single_file_can_be_bound() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let file = place.path("workspace/one");
    fs::write(&file, "one\n")?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666))?;
    let mut pen = start(&place, &format!("{{binds: ['{}:/file:rw']}}", file.display()))?;
    assert_eq!(sh(&mut pen, "cat /file; echo two >> /file")?, "one\n");
    let mut read = Vec::new();
    pen.channel()?.read(In::InPen("/file".into()), 0, 100, &mut read)?;
    assert_eq!(read, b"one\ntwo\n");
    let written =
        pen.channel()?.write(In::InPen("/file".into()), WriteOptions::default(), &mut &b"new"[..]);
    assert_eq!(written.unwrap_err().to_string(), "`/file` can only be read");
    Ok(())
}

#[test]
fn an_image_without_shell_and_libc_serves_as_well() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    place.owned_by(65534, 65534)?;
    let backend = place.backend(supervisor_image::IMAGE)?;
    let spec = place.spec(&format!("{{image: '{SCRATCH}'}}"))?;
    let mut pen = Pen::start(&backend, &spec, Lifetime::UntilDisconnect)?;
    let hello = run(&mut pen, &["/probe", "echo", "hello"])?;
    assert_eq!(hello, (End::Code(0), "hello\n".to_owned(), String::new()));
    assert_eq!(run(&mut pen, &["/probe", "exit", "42"])?.0, End::Code(42));
    let listed = run(&mut pen, &["/probe", "list", "/"])?.1;
    let places: Vec<&str> = listed.lines().collect();
    assert!(!places.contains(&"bin") && !places.contains(&"lib") && places.contains(&"probe"));
    let written = run(&mut pen, &["/probe", "write", "/workspace/note", "text"])?;
    assert_eq!(written.0, End::Code(0), "{written:?}");
    let mut back = Vec::new();
    pen.channel()?.read(In::InPen("/workspace/note".into()), 0, 100, &mut back)?;
    assert_eq!(back, b"text");
    assert_eq!(fs::metadata(place.path("workspace/note"))?.uid(), 65534);
    Ok(())
}

#[test]
fn every_fact_holds_and_the_limits_are_the_kernels() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let limits =
        "{pidsLimit: 64, memory: '256m', cpus: 0.5, ulimits: {nofile: {soft: 100, hard: 200}}}";
    let mut pen = start(&place, limits)?;
    for line in pen.facts() {
        println!("{line:?}");
        assert_eq!(line.holds, Holds::Yes, "{line:?}");
    }
    for wanted in [Fact::Cgroup("memory"), Fact::Cgroup("pids"), Fact::Cgroup("cpu"), Fact::Seccomp]
    {
        assert!(pen.facts().iter().any(|line| line.fact == wanted), "{wanted}");
    }
    assert_eq!(sh(&mut pen, "ulimit -Sn; ulimit -Hn")?, "100\n200\n");
    Ok(())
}

#[test]
fn the_setup_command_runs_before_anything_else_or_there_is_no_container() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let mut pen = start(&place, "{setupCommand: 'echo done > setup'}")?;
    assert_eq!(sh(&mut pen, "cat setup")?, "done\n");
    pen.remove()?;
    let failure = start(&place, "{setupCommand: 'echo broken >&2; exit 9'}").unwrap_err();
    let failure = failure.downcast::<clawpen_engine::backend::docker::StartError>()?.cause;
    let DockerFailure::SetupFailed { how, said } = failure else { panic!("{failure}") };
    assert_eq!((how.as_str(), said.as_str()), ("it ended with code 9", "broken"));
    assert_eq!(left_over(&place)?, "");
    Ok(())
}

#[test]
fn a_container_carries_the_labels_that_others_look_for() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let _pen = start(&place, "{}")?;
    let format = "{{.Label \"openclaw.sandbox\"}} {{.Label \"openclaw.sessionKey\"}}";
    let filter = format!("name={}", place.name()?);
    let listed = docker(&place, &["ps", "--filter", &filter, "--format", format]).output()?;
    assert_eq!(String::from_utf8(listed.stdout)?.trim(), "1 shared");
    Ok(())
}

#[test]
fn a_supervisor_that_cannot_serve_says_why_though_its_container_is_gone() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    // A workspace that the container's user may not enter.
    fs::set_permissions(place.path("workspace"), fs::Permissions::from_mode(0o700))?;
    let backend = place.backend(supervisor_image::IMAGE)?;
    let spec = place.spec("{user: '1000:1000'}")?;
    let failure = Pen::start(&backend, &spec, Lifetime::UntilDisconnect).unwrap_err().cause;
    let said = failure.to_string();
    assert!(said.contains("/workspace"), "{said}");
    assert_eq!(left_over(&place)?, "");
    Ok(())
}

/// As when the process that made it is killed: nobody asks the engine to remove anything.
#[test]
fn a_container_whose_maker_is_gone_goes_too() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    place.owned_by(1000, 1000)?;
    let backend = place.backend(supervisor_image::IMAGE)?;
    let (container, stream) = backend.create(&place.spec("{}")?, Lifetime::UntilDisconnect)?;
    let channel = clawpen_engine::channel::Channel::connect(stream, container.first_process())?;
    container.keep();
    drop(channel);
    let deadline = Instant::now() + Duration::from_secs(10);
    while !left_over(&place)?.is_empty() {
        assert!(Instant::now() < deadline, "{}", left_over(&place)?);
    }
    Ok(())
}

#[test]
fn a_kept_pen_answers_again() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    place.owned_by(1000, 1000)?;
    let backend = place.backend(supervisor_image::IMAGE)?;
    let mut pen = Pen::start(&backend, &place.spec("{}")?, Lifetime::Persistent)?;
    sh(&mut pen, "echo kept > /tmp/note")?;
    drop(pen);
    let container = backend.open(&place.name()?)?.context("it stays")?;
    let stream = container.connect()?;
    let mut channel = clawpen_engine::channel::Channel::connect(stream, container.first_process())?;
    let mut output = Captured::new(1024);
    channel.exec(&Command::new(["cat", "/tmp/note"]), &mut output)?;
    assert_eq!(output.stdout, b"kept\n");
    container.remove()?;
    assert_eq!(left_over(&place)?, "");
    Ok(())
}
