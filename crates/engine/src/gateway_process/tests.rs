//! Records that outlived their process, planted files, places of others.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::{Value, json};

use super::*;

fn ground() -> (tempfile::TempDir, Place) {
    let home = tempfile::tempdir().unwrap();
    let place = Place::ensure(&home.path().join("state")).unwrap();
    (home, place)
}

fn change(place: &Place, key: &str, value: Value) {
    let text = fs::read_to_string(place.record()).unwrap();
    let mut record: Value = serde_json::from_str(&text).unwrap();
    record[key] = value;
    fs::write(place.record(), record.to_string()).unwrap();
}

#[test]
fn a_record_means_one_process_of_one_boot_and_no_other_of_its_number() {
    let (_home, place) = ground();
    assert!(find(&place).unwrap().is_none());
    let address = "127.0.0.1:18789".parse().unwrap();
    assert_eq!(claim(&place, &[address], "1.0").unwrap(), Claim::Ours);
    let running = find(&place).unwrap().unwrap();
    assert_eq!(running.record.pid, std::process::id());
    assert_eq!(running.record.addresses, [address]);
    let start = serde_json::from_str::<Value>(&fs::read_to_string(place.record()).unwrap())
        .unwrap()["startTime"]
        .clone();
    for (key, value, old) in [
        // The number is used again.
        ("startTime", json!(1), start),
        // The machine was started anew.
        ("bootId", json!("another"), json!(crate::clock::boot_id().unwrap())),
        ("pid", json!(4_000_000), json!(std::process::id())),
        ("pid", json!(u32::MAX), json!(std::process::id())),
        ("pid", json!(0), json!(std::process::id())),
    ] {
        change(&place, key, value.clone());
        assert!(find(&place).unwrap().is_none(), "{key}: {value}");
        change(&place, key, old);
        assert!(find(&place).unwrap().is_some(), "{key}");
    }
    release(&place).unwrap();
    assert!(!place.record().exists());
}

#[test]
fn a_living_gateway_keeps_its_record_and_a_dead_one_does_not() {
    let (_home, place) = ground();
    claim(&place, &[], "1.0").unwrap();
    let mut other = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let living = crate::process_identity::look(other.id()).unwrap().unwrap();
    change(&place, "pid", json!(other.id()));
    change(&place, "startTime", json!(living.start_time));
    assert_eq!(claim(&place, &[], "1.0").unwrap(), Claim::Another { pid: other.id() });
    release(&place).unwrap();
    let running = find(&place).unwrap().unwrap();
    assert_eq!(
        stop(&place, &running, std::time::Duration::from_secs(30)).unwrap(),
        Stopped::Gracefully
    );
    assert!(!place.record().exists());
    other.wait().unwrap();
    assert_eq!(claim(&place, &[], "1.0").unwrap(), Claim::Ours);
}

#[test]
fn what_is_no_record_of_ours_is_an_error_and_is_not_followed() {
    let (home, place) = ground();
    for nonsense in ["", "{}", "[1]", "{\"version\": 2}", "garbage"] {
        fs::write(place.record(), nonsense).unwrap();
        assert!(matches!(find(&place), Err(RecordError::Nonsense { .. })), "{nonsense}");
    }
    fs::remove_file(place.record()).unwrap();
    let victim = home.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    for path in [place.record(), place.log()] {
        symlink(&victim, &path).unwrap();
    }
    assert!(matches!(find(&place), Err(RecordError::NotOurs { .. })));
    assert!(matches!(claim(&place, &[], "1.0"), Err(RecordError::NotOurs { .. })));
    assert!(matches!(open_log(&place.log()), Err(LogError::NotOurs { .. })));
    fs::remove_file(place.log()).unwrap();
    fs::hard_link(&victim, place.log()).unwrap();
    assert!(matches!(open_log(&place.log()), Err(LogError::NotOurs { .. })));
    fs::remove_file(place.log()).unwrap();
    fs::write(place.log(), "old").unwrap();
    fs::set_permissions(place.log(), fs::Permissions::from_mode(0o644)).unwrap();
    open_log(&place.log()).unwrap();
    assert_eq!(fs::metadata(place.log()).unwrap().permissions().mode() & 0o777, 0o600);
    fs::remove_file(place.log()).unwrap();
    fs::create_dir(place.log()).unwrap();
    assert!(open_log(&place.log()).is_err());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
}

#[test]
fn a_place_that_others_write_is_none() {
    let (home, _) = ground();
    let state = home.path().join("state");
    let open = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    for (path, mode) in [(state.clone(), 0o777), (state.join("clawpen"), 0o770)] {
        open(&path, mode);
        assert!(matches!(Place::find(&state), Err(PlaceError::Open { .. })), "{mode:o}");
        assert!(matches!(Place::ensure(&state), Err(PlaceError::Open { .. })), "{mode:o}");
        open(&path, 0o700);
        assert!(Place::find(&state).unwrap().is_some());
    }
    let config = state.join("openclaw.json");
    assert_eq!(check_config(&config).unwrap(), None);
    fs::write(&config, "{}").unwrap();
    for (mode, expected) in [(0o600, Private::Yes), (0o640, Private::No), (0o664, Private::No)] {
        open(&config, mode);
        assert_eq!(check_config(&config).unwrap(), Some(expected), "{mode:o}");
    }
    open(&config, 0o666);
    assert!(matches!(check_config(&config), Err(PlaceError::Open { .. })));
    open(&config, 0o600);
    let elsewhere = home.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::rename(&config, elsewhere.join("config.json")).unwrap();
    symlink(elsewhere.join("config.json"), &config).unwrap();
    for (mode, is_open) in [(0o755, false), (0o1777, false), (0o777, true)] {
        open(&elsewhere, mode);
        let checked = check_config(&config);
        assert_eq!(matches!(checked, Err(PlaceError::Open { .. })), is_open, "{mode:o}");
    }
}

#[test]
fn only_a_gateway_passes_the_probe() {
    use std::io::{Read as _, Write as _};
    let limit = std::time::Duration::from_secs(5);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        for answer in [
            "HTTP/1.1 200 OK\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\n\r\n{\"ok\":true,\"status\":\"live\"}",
        ] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut room = [0; 1024];
            let _ = stream.read(&mut room).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    assert!(matches!(probe(address, limit), Err(ProbeError::Other { .. })));
    assert!(probe(address, limit).is_ok());
    server.join().unwrap();
    assert!(matches!(probe(address, limit), Err(ProbeError::Silent { .. })));
}
