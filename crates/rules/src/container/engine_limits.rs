//! A container's limits as the engine's API takes them: numbers instead of the texts of its command
//! line.
//!
//! Reads a text as the engine's own command line does, and refuses what that would refuse: a limit
//! that was misread would be a limit nobody asked for.

use super::Limits;

/// The numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EngineLimits {
    pub pids: Option<i64>,
    /// In bytes.
    pub memory: Option<i64>,
    /// Memory and swap together, in bytes; -1 is no limit.
    pub memory_swap: Option<i64>,
    /// Billionths of a processor.
    pub nano_cpus: Option<i64>,
    pub gpus: Option<Gpus>,
    pub ulimits: Vec<EngineUlimit>,
}

/// Which of the machine's GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gpus {
    All,
    Count(i64),
    Devices(Vec<String>),
}

/// One resource limit; -1 is no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineUlimit {
    pub name: String,
    pub soft: i64,
    pub hard: i64,
}

/// A limit that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`docker.{key}` is `{text}`; write it like {like}")]
pub struct LimitProblem {
    pub key: String,
    pub text: String,
    like: &'static str,
}

/// The resource limits that an engine sets. Without `as`: engines refuse it.
const ULIMITS: &[&str] = &[
    "core",
    "cpu",
    "data",
    "fsize",
    "locks",
    "memlock",
    "msgqueue",
    "nice",
    "nofile",
    "nproc",
    "rss",
    "rtprio",
    "rttime",
    "sigpending",
    "stack",
];

impl EngineLimits {
    /// Reads every limit.
    pub fn read(limits: &Limits) -> Result<Self, LimitProblem> {
        let Limits { pids, memory, memory_swap, cpus, gpus, ulimits } = limits;
        Ok(Self {
            pids: read("pidsLimit", pids.as_ref(), "`512`", |text| text.parse().ok())?,
            memory: read("memory", memory.as_ref(), "`512m` or `1.5g`", bytes)?,
            memory_swap: read("memorySwap", memory_swap.as_ref(), "`1g`, or `-1`", |text| {
                if text == "-1" { Some(-1) } else { bytes(text) }
            })?,
            nano_cpus: read("cpus", cpus.as_ref(), "`0.5` or `2`", nano_cpus)?,
            gpus: read("gpus", gpus.as_ref(), "`all`, `2` or `device=0,1`", read_gpus)?,
            ulimits: ulimits.iter().map(ulimit).collect::<Result<_, _>>()?,
        })
    }
}

fn read<T>(
    key: &str,
    text: Option<&String>,
    like: &'static str,
    reader: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, LimitProblem> {
    let Some(text) = text else { return Ok(None) };
    match reader(text.trim()) {
        Some(value) => Ok(Some(value)),
        None => Err(LimitProblem { key: key.to_owned(), text: text.clone(), like }),
    }
}

/// `512m`, `1.5g`, `64kb`, `1 GiB`, `1073741824`: powers of 1024, in any case.
pub fn bytes(text: &str) -> Option<i64> {
    let end = text.rfind(|c: char| c.is_ascii_digit() || c == '.')? + 1;
    let (number, unit) = text.split_at(end);
    let unit = unit.trim_start().to_ascii_lowercase();
    let shift = match unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(&unit) {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        "p" => 50,
        _ => return None,
    };
    if unit == "ib" || !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let scale = 2_f64.powi(shift);
    whole(number.parse::<f64>().ok()? * scale)
}

fn nano_cpus(text: &str) -> Option<i64> {
    let number: f64 = text.parse().ok()?;
    whole((number * 1e9).round()).filter(|nanos| *nanos > 0)
}

/// The number without its fraction, if it is one that the engine can hold.
fn whole(number: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked on the same line")]
    (number.is_finite() && (0.0..9.0e18).contains(&number)).then_some(number as i64)
}

fn read_gpus(text: &str) -> Option<Gpus> {
    if text == "all" {
        return Some(Gpus::All);
    }
    if let Some(devices) = text.trim_matches('"').strip_prefix("device=") {
        let devices: Vec<String> = devices.split(',').map(str::to_owned).collect();
        return (!devices.iter().any(String::is_empty)).then_some(Gpus::Devices(devices));
    }
    text.parse().ok().filter(|count| *count > 0).map(Gpus::Count)
}

fn ulimit((name, value): &(String, String)) -> Result<EngineUlimit, LimitProblem> {
    let (soft, hard) = value.split_once(':').unwrap_or((value, value));
    let bound = |text: &str| text.trim().parse::<i64>().ok().filter(|number| *number >= -1);
    let is_ordered = |soft: i64, hard: i64| hard == -1 || (soft != -1 && soft <= hard);
    match (bound(soft), bound(hard)) {
        (Some(soft), Some(hard)) if ULIMITS.contains(&name.as_str()) && is_ordered(soft, hard) => {
            Ok(EngineUlimit { name: name.clone(), soft, hard })
        }
        _ => Err(LimitProblem {
            key: format!("ulimits.{name}"),
            text: value.clone(),
            like: "`nofile: \"1024:2048\"`",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_the_engine_reads_them() {
        for (text, expected) in [
            ("0", Some(0)),
            ("1073741824", Some(1 << 30)),
            ("1b", Some(1)),
            ("64k", Some(65_536)),
            ("64KB", Some(65_536)),
            ("64 KiB", Some(65_536)),
            ("512m", Some(512 << 20)),
            ("1.5g", Some(3 << 29)),
            ("1t", Some(1 << 40)),
            ("", None),
            ("m", None),
            ("ib", None),
            ("1x", None),
            ("1 ib", None),
            ("-1", None),
            ("1..5g", None),
            ("1e3", None),
            ("99999p", None),
        ] {
            assert_eq!(bytes(text), expected, "{text:?}");
        }
    }

    #[test]
    fn every_limit_becomes_a_number() {
        let text = |text: &str| Some(text.to_owned());
        let limits = Limits {
            pids: text("256"),
            memory: text("1g"),
            memory_swap: text("-1"),
            cpus: text("1.5"),
            gpus: text("device=0,1"),
            ulimits: vec![
                ("nofile".into(), "1024:2048".into()),
                ("nproc".into(), "256".into()),
                ("core".into(), "0:-1".into()),
            ],
        };
        let ulimit = |name: &str, soft, hard| EngineUlimit { name: name.into(), soft, hard };
        let expected = EngineLimits {
            pids: Some(256),
            memory: Some(1 << 30),
            memory_swap: Some(-1),
            nano_cpus: Some(1_500_000_000),
            gpus: Some(Gpus::Devices(vec!["0".into(), "1".into()])),
            ulimits: vec![
                ulimit("nofile", 1024, 2048),
                ulimit("nproc", 256, 256),
                ulimit("core", 0, -1),
            ],
        };
        assert_eq!(EngineLimits::read(&limits), Ok(expected));
    }

    #[test]
    fn a_limit_that_cannot_be_read_is_named() {
        let text = |text: &str| Some(text.to_owned());
        check(Limits { memory: text("lots"), ..Limits::default() }, "memory");
        check(Limits { memory_swap: text("-2"), ..Limits::default() }, "memorySwap");
        check(Limits { pids: text("1.5"), ..Limits::default() }, "pidsLimit");
        check(Limits { cpus: text("1e-10"), ..Limits::default() }, "cpus");
        check(Limits { gpus: text("driver=x"), ..Limits::default() }, "gpus");
        for (name, value) in [("nofile", "x"), ("as", "1"), ("nofile", "2:1"), ("core", "-1:5")] {
            let ulimits = vec![(name.to_owned(), value.to_owned())];
            check(Limits { ulimits, ..Limits::default() }, &format!("ulimits.{name}"));
        }
    }

    #[track_caller]
    fn check(limits: Limits, key: &str) {
        assert_eq!(EngineLimits::read(&limits).map_err(|problem| problem.key), Err(key.to_owned()));
    }
}
