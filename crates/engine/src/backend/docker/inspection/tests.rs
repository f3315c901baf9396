//! An engine's answer is turned into what was asked for, and then spoiled one field at a time.

use serde_json::json;

use super::*;

const IMAGE: &str = "sha256:1";

fn asked() -> ContainerCreateBody {
    serde_json::from_value(json!({
        "Image": "x:1",
        "User": "1000:1000",
        "Env": ["PATH=/bin", "SECRET=hush"],
        "Entrypoint": ["/.clawpen/supervisor", "serve"],
        "WorkingDir": "/workspace",
        "Labels": {"openclaw.sandbox": "1"},
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {
            "NetworkMode": "none",
            "ReadonlyRootfs": true,
            "Privileged": false,
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges", "seccomp={}"],
            "Tmpfs": {"/tmp": ""},
            "PidsLimit": 64,
            "Ulimits": [{"Name": "nofile", "Soft": 1, "Hard": 2}],
            "IpcMode": "private",
            "Init": false,
            "Binds": ["/data:/data:ro,z,rprivate"],
            "Mounts": [
                {"Type": "bind", "Source": "/ws", "Target": "/workspace", "ReadOnly": false},
                {"Type": "bind", "Source": "/sv", "Target": "/.clawpen/supervisor", "ReadOnly": true},
            ],
        },
    }))
    .unwrap()
}

/// What an honest engine says of it, in its own ways to say nothing.
fn honest() -> Value {
    let mut config = serde_json::to_value(asked()).unwrap();
    let mut host = config.as_object_mut().unwrap().remove("HostConfig").unwrap();
    config["Env"] = json!(["SECRET=hush", "PATH=/bin"]);
    config["Hostname"] = json!("0123456789ab");
    config["Tty"] = json!(false);
    config["Cmd"] = Value::Null;
    config["Domainname"] = json!("");
    host["SecurityOpt"] = json!(["seccomp={}", "no-new-privileges"]);
    host["ShmSize"] = json!(67_108_864);
    host["Runtime"] = json!("runc");
    host["MaskedPaths"] =
        json!(["/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"]);
    host["ReadonlyPaths"] = json!(super::READ_ONLY);
    host["CapAdd"] = Value::Null;
    host["PidMode"] = json!("");
    host["CpuQuota"] = json!(0);
    host["Devices"] = json!([]);
    host["PortBindings"] = json!({});
    host["Ulimits"] = json!([
        {"Name": "core", "Soft": 0, "Hard": 0},
        {"Name": "nofile", "Soft": 1, "Hard": 2},
    ]);
    json!({
        "Image": IMAGE,
        "Config": config,
        "HostConfig": host,
        "Mounts": [
            {"Type": "bind", "Source": "/sv", "Destination": "/.clawpen/supervisor", "RW": false},
            {"Type": "bind", "Source": "/data", "Destination": "/data", "Mode": "ro,z", "RW": false},
            {"Type": "bind", "Source": "/ws", "Destination": "/workspace", "RW": true},
        ],
    })
}

#[test]
fn an_honest_engine_differs_in_nothing() {
    check(honest(), &[]);
}

#[test]
fn each_door_that_an_engine_opens_by_itself_is_named() {
    for (pointer, value) in [
        ("/HostConfig/Privileged", json!(true)),
        ("/HostConfig/CapAdd", json!(["SYS_ADMIN"])),
        ("/HostConfig/CapDrop", json!([])),
        ("/HostConfig/PidMode", json!("host")),
        ("/HostConfig/IpcMode", json!("host")),
        ("/HostConfig/UTSMode", json!("host")),
        ("/HostConfig/UsernsMode", json!("host")),
        ("/HostConfig/CgroupnsMode", json!("host")),
        ("/HostConfig/NetworkMode", json!("host")),
        ("/HostConfig/NetworkMode", json!("bridge")),
        ("/HostConfig/ReadonlyRootfs", json!(false)),
        ("/HostConfig/SecurityOpt", json!(["seccomp={}"])),
        ("/HostConfig/SecurityOpt", json!(["no-new-privileges", "seccomp=unconfined"])),
        ("/HostConfig/Devices", json!([{"PathOnHost": "/dev/kmsg"}])),
        ("/HostConfig/GroupAdd", json!(["0"])),
        ("/HostConfig/Tmpfs", json!({"/tmp": "exec"})),
        ("/HostConfig/PidsLimit", json!(0)),
        ("/HostConfig/Init", json!(true)),
        ("/HostConfig/Ulimits", json!([{"Name": "nofile", "Soft": 1, "Hard": 3}])),
        ("/HostConfig/Memory", json!(1)),
        ("/HostConfig/MaskedPaths", json!([])),
        ("/HostConfig/MaskedPaths", json!(["/proc/kcore"])),
        ("/HostConfig/ReadonlyPaths", Value::Null),
        ("/HostConfig/ReadonlyPaths", json!(["/proc/bus", "/proc/sysrq-trigger"])),
        ("/HostConfig/PublishAllPorts", json!(true)),
        ("/HostConfig/Sysctls", json!({"net.ipv4.ip_forward": "1"})),
        ("/HostConfig/VolumesFrom", json!(["other"])),
        ("/Config/User", json!("0:0")),
        ("/Config/Entrypoint", json!(["/bin/sh"])),
        ("/Config/Cmd", json!(["sleep"])),
        ("/Config/WorkingDir", json!("/")),
        ("/Config/Image", json!("y:1")),
        ("/Config/Healthcheck", json!({"Test": ["CMD", "x"]})),
        ("/Config/Labels", json!({})),
        ("/Image", json!("sha256:2")),
    ] {
        let mut spoiled = honest();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        spoiled.pointer_mut(parent).unwrap()[name] = value;
        let field = pointer.trim_start_matches('/').replace('/', ".");
        check(spoiled, &[&field]);
    }
}

#[test]
fn mounts_are_compared_as_mounted() {
    let mut missing = honest();
    missing["Mounts"].as_array_mut().unwrap().remove(0);
    check(missing, &["Mounts[/.clawpen/supervisor]"]);
    let mut wider = honest();
    wider["Mounts"][1]["RW"] = json!(true);
    check(wider, &["Mounts[/data]"]);
    let mut elsewhere = honest();
    elsewhere["Mounts"][2]["Source"] = json!("/");
    check(elsewhere, &["Mounts[/workspace]"]);
    let mut more = honest();
    let volume = json!({"Type": "volume", "Source": "/v", "Destination": "/cache", "RW": true});
    more["Mounts"].as_array_mut().unwrap().push(volume);
    check(more, &["Mounts[/cache]"]);
}

#[test]
fn a_variable_that_differs_is_named_without_its_value() {
    let mut spoiled = honest();
    spoiled["Config"]["Env"] = json!(["PATH=/bin", "SECRET=other", "EXTRA=hidden"]);
    let observed = serde_json::from_value(spoiled).unwrap();
    let found = differences(&asked(), IMAGE, &observed, Make::Docker);
    let [difference] = found.as_slice() else { panic!("{found:?}") };
    let text = difference.to_string();
    assert!(text.contains("EXTRA") && !text.contains("hidden") && !text.contains("hush"), "{text}");
}

#[track_caller]
fn check(observed: Value, expected: &[&str]) {
    let observed = serde_json::from_value(observed).unwrap();
    let found = differences(&asked(), IMAGE, &observed, Make::Docker);
    let fields: Vec<&str> = found.iter().map(|difference| difference.field.as_str()).collect();
    assert_eq!(fields, expected, "{found:#?}");
}

/// What Podman 4.3 says of the same container.
fn of_podman() -> Value {
    let mut answer = honest();
    answer["Config"]["Image"] = json!("docker.io/library/x:1");
    answer["Config"]["Env"] =
        json!(["SECRET=hush", "PATH=/bin", "TERM=xterm", "container=podman", "HOSTNAME=0123"]);
    answer["Config"]["Healthcheck"] = json!({"Test": ["NONE"], "Interval": 30, "Retries": 3});
    let host = &mut answer["HostConfig"];
    host["IpcMode"] = json!("shareable");
    host["PidMode"] = json!("private");
    host["UTSMode"] = json!("private");
    host["CapDrop"] = json!([
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "NET_RAW",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ]);
    host["Tmpfs"] = json!({"/tmp": "rw,rprivate,nosuid,nodev,tmpcopyup", "/run": "rw,nodev"});
    host["Ulimits"] = json!([
        {"Name": "RLIMIT_NOFILE", "Soft": 1, "Hard": 2},
        {"Name": "RLIMIT_NPROC", "Soft": 5, "Hard": 5},
    ]);
    answer
}

#[test]
fn podman_says_the_same_in_its_own_words_and_no_more() {
    let found = |answer: Value| -> Vec<String> {
        let observed = serde_json::from_value(answer).unwrap();
        let found = differences(&asked(), IMAGE, &observed, Make::Podman);
        found.into_iter().map(|difference| difference.field).collect()
    };
    assert_eq!(found(of_podman()), Vec::<String>::new());
    for (pointer, value) in [
        ("/HostConfig/IpcMode", json!("host")),
        ("/HostConfig/PidMode", json!("host")),
        ("/HostConfig/CapDrop", json!(["CHOWN"])),
        ("/HostConfig/CapAdd", json!(["SYS_ADMIN"])),
        ("/HostConfig/Tmpfs", json!({"/tmp": "", "/etc": ""})),
        ("/HostConfig/NetworkMode", json!("host")),
        ("/Config/Env", json!(["SECRET=hush", "PATH=/bin", "LD_PRELOAD=/x"])),
        ("/Config/Image", json!("docker.io/evil/x:1")),
        ("/Config/Healthcheck", json!({"Test": ["CMD", "x"]})),
    ] {
        let mut answer = of_podman();
        *answer.pointer_mut(pointer).unwrap() = value;
        assert_eq!(found(answer), [pointer[1..].replace('/', ".")], "{pointer}");
    }
}

#[test]
fn a_huge_value_is_shown_in_short_and_still_told_apart() {
    let profile = |last: char| json!([format!("seccomp={}{last}", "é".repeat(100_000))]);
    let mut found = Vec::new();
    note("HostConfig.SecurityOpt", profile('a'), profile('b'), &mut found);
    let [difference] = &found[..] else { panic!("{}", found.len()) };
    assert_ne!(difference.asked, difference.observed);
    assert!(difference.to_string().len() < 2000, "{difference}");
}
