//! Keys of `sandbox.docker`, each in a live container: it is in force, or there is no container.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use anyhow::{Context as _, Result};
use clawpen_engine::backend::docker::{Pen, StartError};
use clawpen_engine::channel::WriteOptions;
use clawpen_engine::supervisor_image;
use clawpen_rules::facts::Holds;
use clawpen_tests::docker::Place;
use clawpen_wire::pen::Lifetime;
use clawpen_wire::supervisor::{End, Place as In};

use crate::container::{docker, left_over};
use crate::pen::{run, sh};

/// A pen of `config`, whose facts hold.
fn start(place: &Place, config: &str) -> Result<Pen> {
    place.owned_by(1000, 1000)?;
    let backend = place.backend(supervisor_image::IMAGE)?;
    let pen = Pen::start(&backend, &place.spec(config)?, Lifetime::UntilDisconnect)?;
    for line in pen.facts() {
        assert_eq!(line.holds, Holds::Yes, "{line:?}");
    }
    Ok(pen)
}

/// Why there is no pen of `config`, and that there is none.
#[track_caller]
fn refusal(place: &Place, config: &str) -> Result<String> {
    let said = match start(place, config) {
        Ok(_) => panic!("{config} was accepted"),
        Err(error) => match error.downcast::<StartError>() {
            Ok(error) => error.cause.to_string(),
            Err(error) => format!("{error:#}"),
        },
    };
    assert_eq!(left_over(place)?, "", "{config}");
    Ok(said)
}

/// What the engine says of the place's container.
fn inspect(place: &Place, field: &str) -> Result<String> {
    let format = format!("{{{{json {field}}}}}");
    let output = docker(place, &["inspect", "--format", &format, &place.name()?]).output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[test]
fn memory_swap_and_processors_are_what_the_kernel_keeps() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let mut pen = start(&place, "{memory: '64m', memorySwap: '96m', cpus: 0.5, pidsLimit: 50}")?;
    assert_eq!(inspect(&place, ".HostConfig.Memory")?, (64 << 20).to_string());
    assert_eq!(inspect(&place, ".HostConfig.MemorySwap")?, (96 << 20).to_string());
    assert_eq!(inspect(&place, ".HostConfig.NanoCpus")?, "500000000");
    // More than the limit and its swap is killed; the container lives on.
    let script = "b = bytearray(200 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1";
    let (ended, _, _) = run(&mut pen, &["python3", "-c", script])?;
    assert_ne!(ended, End::Code(0));
    assert_eq!(sh(&mut pen, "echo lives")?, "lives\n");
    Ok(())
}

#[test]
fn a_seccomp_profile_is_in_force_on_top_of_ours() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let profile = place.path("profile.json");
    // Comments and order do not survive; what it says does.
    let text = r#"{"defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}"#;
    fs::write(&profile, text)?;
    let config = format!("{{seccompProfile: '{}'}}", profile.display());
    let mut pen = start(&place, &config)?;
    let (ended, _, said) = run(&mut pen, &["mkdir", "/workspace/x"])?;
    assert_eq!((ended, place.path("workspace/x").exists()), (End::Code(1), false), "{said}");
    // What the profile allows and ours does not stays shut.
    let vsock = "import socket; socket.socket(socket.AF_VSOCK)";
    assert_ne!(run(&mut pen, &["python3", "-c", vsock])?.0, End::Code(0));
    assert!(sh(&mut pen, "grep Seccomp_filters /proc/self/status")?.contains('2'));
    pen.remove()?;
    for (text, expected) in
        [("{", "profile.json"), ("{\"defaultAction\": \"NONSENSE\"}", "seccomp")]
    {
        fs::write(&profile, text)?;
        let said = refusal(&place, &config)?;
        assert!(said.contains(expected), "{text}: {said}");
    }
    fs::remove_file(&profile)?;
    let said = refusal(&place, &config)?;
    assert!(said.contains("profile.json"), "{said}");
    let said = refusal(&place, "{seccompProfile: 'unconfined'}")?;
    assert!(said.contains("seccomp"), "{said}");
    Ok(())
}

/// Where the engine knows `AppArmor` it is asked for the profile, which does not exist.
#[test]
fn an_apparmor_profile_that_nobody_enforces_is_refused_by_name() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let said = refusal(&place, "{apparmorProfile: 'clawpen-test-none'}")?;
    assert!(said.to_lowercase().contains("apparmor"), "{said}");
    let said = refusal(&place, "{apparmorProfile: 'unconfined'}")?;
    assert!(said.to_lowercase().contains("apparmor"), "{said}");
    Ok(())
}

#[test]
fn a_network_of_ones_own_is_joined_and_a_missing_one_is_named() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let network = place.name()?;
    let said = refusal(&place, &format!("{{network: '{network}'}}"))?;
    assert!(said.contains(&network) && said.contains("docker network create"), "{said}");
    let made = docker(&place, &["network", "create", "--internal", &network]).output()?;
    assert!(made.status.success(), "{made:?}");
    let used = used_network(&place, &network);
    let removed = docker(&place, &["network", "rm", &network]).output()?;
    used?;
    assert!(removed.status.success(), "{removed:?}");
    Ok(())
}

fn used_network(place: &Place, network: &str) -> Result<()> {
    let config = format!(
        "{{network: '{network}', dns: ['192.0.2.53'], extraHosts: ['oracle.test:192.0.2.7']}}"
    );
    let mut pen = start(place, &config)?;
    let listed = sh(&mut pen, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | sort")?;
    assert_eq!(listed, "eth0\nlo\n");
    assert!(inspect(place, ".NetworkSettings.Networks")?.contains(network));
    assert_eq!(sh(&mut pen, "getent hosts oracle.test | cut -d' ' -f1")?, "192.0.2.7\n");
    assert_eq!(inspect(place, ".HostConfig.Dns")?, "[\"192.0.2.53\"]");
    pen.remove()?;
    // On the engine's own bridge the name servers stand in the file.
    let mut pen = start(place, "{network: 'bridge', dns: ['192.0.2.53']}")?;
    assert_eq!(sh(&mut pen, "grep -c '^nameserver 192.0.2.53$' /etc/resolv.conf")?, "1\n");
    pen.remove()?;
    Ok(())
}

#[test]
fn the_hosts_network_is_never_given_and_another_containers_only_by_its_flag() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let said = refusal(&place, "{network: 'host'}")?;
    assert!(said.contains("host"), "{said}");
    let said = refusal(&place, "{network: 'container:clawpen-test-none'}")?;
    assert!(said.contains("dangerouslyAllowContainerNamespaceJoin"), "{said}");
    let flag = "dangerouslyAllowContainerNamespaceJoin: true";
    let said = refusal(&place, &format!("{{network: 'container:clawpen-test-none', {flag}}}"))?;
    assert!(said.contains("clawpen-test-none"), "{said}");
    let other = Place::new()?.context("an engine")?;
    let mut neighbour = start(&other, "{}")?;
    let mut pen = start(&place, &format!("{{network: 'container:{}', {flag}}}", other.name()?))?;
    let namespace = "readlink /proc/self/ns/net";
    assert_eq!(sh(&mut pen, namespace)?, sh(&mut neighbour, namespace)?);
    Ok(())
}

#[test]
fn gpus_without_anything_that_gives_them_are_refused_by_key() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let said = refusal(&place, "{gpus: 'all'}")?;
    assert!(said.contains("`docker.gpus`") && said.contains("remove the key"), "{said}");
    Ok(())
}

#[test]
fn what_is_written_inside_has_the_right_owner_and_mode_outside() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    for (owner, config) in
        [((1000, 1000), "{user: '1000:1000'}"), ((4242, 4343), "{user: '4242:4343'}")]
    {
        place.owned_by(owner.0, owner.1)?;
        let backend = place.backend(supervisor_image::IMAGE)?;
        let mut pen = Pen::start(&backend, &place.spec(config)?, Lifetime::UntilDisconnect)?;
        sh(
            &mut pen,
            "umask 027; mkdir -p d/e; echo x > d/f; touch d/g; chmod 751 d/g; ln -s f d/l",
        )?;
        let path = |name: &str| place.path("workspace").join(name);
        let look = |name: &str| -> Result<(u32, u32, u32)> {
            let found = fs::symlink_metadata(path(name))?;
            Ok((found.uid(), found.gid(), found.permissions().mode() & 0o7777))
        };
        let with = |mode| (owner.0, owner.1, mode);
        assert_eq!((look("d")?, look("d/e")?), (with(0o750), with(0o750)));
        assert_eq!((look("d/f")?, look("d/g")?), (with(0o640), with(0o751)));
        assert_eq!((look("d/l")?.0, look("d/l")?.1), owner);
        let note = || In::InPen("/workspace/d/f".into());
        pen.channel()?.write(note(), WriteOptions::default(), &mut &b"y"[..])?;
        // An overwrite keeps what the file had.
        assert_eq!(look("d/f")?, with(0o640));
        pen.remove()?;
        fs::remove_dir_all(path("d"))?;
    }
    Ok(())
}

/// On a machine without `SELinux` a label does nothing; the mount is the same.
#[test]
fn a_workspace_that_is_labelled_is_the_same_workspace() -> Result<()> {
    use clawpen_rules::container::WorkspaceLabel;
    let Some(place) = Place::new()? else { return Ok(()) };
    for label in [WorkspaceLabel::Shared, WorkspaceLabel::Private] {
        place.owned_by(1000, 1000)?;
        let backend = place.backend(supervisor_image::IMAGE)?;
        let spec = place.labelled_spec("{}", label)?;
        let mut pen = Pen::start(&backend, &spec, Lifetime::UntilDisconnect)?;
        sh(&mut pen, "echo x > note")?;
        assert_eq!(fs::read_to_string(place.path("workspace/note"))?, "x\n");
        let binds = inspect(&place, ".HostConfig.Binds")?;
        let option = label.option().context("a label")?;
        assert!(binds.contains(&format!(":/workspace:rw,{option},rprivate")), "{binds}");
        pen.remove()?;
    }
    Ok(())
}

#[test]
fn a_file_that_does_not_fit_leaves_the_old_one() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let mut pen = start(&place, "{tmpfs: ['/tmp:size=1m,mode=1777']}")?;
    let note = || In::InPen("/tmp/note".into());
    let channel = pen.channel()?;
    channel.write(note(), WriteOptions::default(), &mut &b"old"[..])?;
    let big = vec![b'x'; 2 << 20];
    let failed = channel.write(note(), WriteOptions::default(), &mut big.as_slice()).unwrap_err();
    assert!(failed.to_string().to_lowercase().contains("space"), "{failed}");
    let mut back = Vec::new();
    channel.read(note(), 0, 100, &mut back)?;
    assert_eq!(back, b"old");
    assert_eq!(sh(&mut pen, "ls -A /tmp")?, "note\n");
    Ok(())
}

/// Root of a container is root of the machine as far as reading goes, if no user namespace is between.
#[test]
fn what_only_root_may_read_of_the_machine_is_masked_for_a_containers_root() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let mut pen = start(&place, "{user: '0:0'}")?;
    let script = "cd /proc; for file in $(ls -d [!0-9]*); do \
                  if [ -f $file ] && [ ! -L $file ] && [ -z \"$(find $file -perm -o=r)\" ] \
                  && [ -n \"$(head -c 1 $file 2>/dev/null | od -An -c)\" ]; then echo $file; fi; done; \
                  ls -A /sys/kernel/slab /sys/firmware 2>/dev/null | grep -v : | head -n 1";
    assert_eq!(sh(&mut pen, script)?.trim(), "");
    for file in ["kpageflags", "kallsyms", "slabinfo", "vmallocinfo", "interrupts"] {
        assert_eq!(
            sh(&mut pen, &format!("head -c 1 /proc/{file} 2>/dev/null; true"))?,
            "",
            "{file}"
        );
    }
    Ok(())
}
