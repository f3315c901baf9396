//! The gateway as a process of its own: how fast it is there, what it weighs, how fast it answers one
//! client and five hundred, and whether one that does not read harms the others. Beside the reference's,
//! where that is installed.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawpen_gateway::client::{Client, ClientError, Device};
use serde_json::{Value, json};

use super::jobs::{Bench, at_most, within};
use super::numbers::{Summary, Times};
use super::reference::Reference;
use super::{BenchError, Measured, Row, Verdict, system};

/// The secret of gateways that live for a few seconds.
pub(super) const TOKEN: &str = "bench-gateway-token-of-this-run";
const STARTS: usize = 10;
/// The reference takes seconds for each.
const REFERENCE_STARTS: usize = 3;
const REFERENCE_ROUNDS: usize = 50;
const START_BUDGET: f64 = 150.0;
const IDLE_BUDGET_MB: u64 = 40;
const ANSWER_BUDGET: f64 = 1.0;
const CLIENTS: usize = 500;
const PER_SECOND: u32 = 20;
const CROWD_SECONDS: u32 = 5;
/// So many log in at once: the gateway takes few strangers of one address.
const AT_ONCE: usize = 16;
/// What a client that does not read asks for.
const SHOUTS: usize = 5_000;

impl Bench {
    pub(super) fn gateway(&self, reference: Option<&Reference>) -> Result<Vec<Row>, BenchError> {
        let mut starts = Times::default();
        for _ in 1..STARTS {
            starts.measure(Gateway::start)?;
        }
        let gateway = starts.measure(Gateway::start)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(system("start a runtime"))?;
        let device = Arc::new(Device::new().map_err(failed)?);
        let rival = reference.map(|reference| measure(reference, &runtime)).transpose()?;
        let beside =
            |of: fn(&Rival) -> Option<Summary>| Some(("reference", rival.as_ref().and_then(of)?));
        runtime.block_on(async {
            let mut client = gateway.client(&device).await?;
            let weight = megabytes(gateway.child.id())?;
            let alone = answers(&mut client, self.rounds).await?;
            let crowd = crowd(&gateway, &device).await?;
            let slow = beside_slow(&gateway, (&mut client, &device), self.rounds).await?;
            let start = at_most("gateway: start to listening", starts.summary(), START_BUDGET);
            let answer = at_most("gateway: config.get", alone, ANSWER_BUDGET);
            Ok(vec![
                Row { rival: beside(|rival| rival.start), ..start },
                weight_row(weight, rival.as_ref().map(|rival| rival.megabytes)),
                Row { rival: beside(|rival| rival.answer), ..answer },
                crowd,
                slow_row(alone, slow),
            ])
        })
    }
}

/// What the reference came to.
struct Rival {
    start: Option<Summary>,
    megabytes: u64,
    answer: Option<Summary>,
}

fn measure(reference: &Reference, runtime: &tokio::runtime::Runtime) -> Result<Rival, BenchError> {
    let mut starts = Times::default();
    for _ in 1..REFERENCE_STARTS {
        starts.measure(|| reference.start())?;
    }
    let running = starts.measure(|| reference.start())?;
    let device = Device::new().map_err(failed)?;
    runtime.block_on(async {
        let mut client = Client::connect(running.address, TOKEN, &device).await.map_err(failed)?;
        // The first answer is another matter: it loads what the later ones have.
        client.ask("config.get", json!({})).await.map_err(failed)?;
        let megabytes = megabytes(running.process())?;
        let answer = answers(&mut client, REFERENCE_ROUNDS).await?;
        Ok(Rival { start: starts.summary(), megabytes, answer })
    })
}

fn weight_row(ours: u64, rival: Option<u64>) -> Row {
    let figure = match rival {
        Some(rival) => format!("{ours} MB; reference {rival} MB"),
        None => format!("{ours} MB"),
    };
    Row {
        job: "gateway: memory when idle",
        ours: Measured::Figure(figure),
        rival: None,
        budget: format!("<= {IDLE_BUDGET_MB} MB"),
        verdict: if ours <= IDLE_BUDGET_MB { Verdict::Met } else { Verdict::Missed },
    }
}

fn failed(error: ClientError) -> BenchError {
    BenchError::Tool(error.to_string())
}

/// A gateway that ends with its value.
struct Gateway {
    child: Child,
    address: SocketAddr,
}

impl Gateway {
    fn start() -> Result<Self, BenchError> {
        let us = std::env::current_exe().map_err(system("find this program"))?;
        let mut child = Command::new(us)
            .args(["gateway", "--port", "0", "--allow-unconfigured", "--json"])
            .env("OPENCLAW_GATEWAY_TOKEN", TOKEN)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(system("start the gateway"))?;
        let from = child.stdout.take();
        let Some(address) = from.and_then(listening) else {
            end(&mut child);
            return Err(BenchError::Tool("the gateway did not start".to_owned()));
        };
        Ok(Self { child, address })
    }

    async fn client(&self, device: &Device) -> Result<Client, BenchError> {
        Client::connect(self.address, TOKEN, device).await.map_err(failed)
    }
}

/// What a process weighs, its share of common pages included.
fn megabytes(process: u32) -> Result<u64, BenchError> {
    let path = format!("/proc/{process}/smaps_rollup");
    let text = std::fs::read_to_string(path).map_err(system("weigh the gateway"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
    let kilobytes: u64 =
        kilobytes.ok_or_else(|| BenchError::Tool("the gateway has no weight".to_owned()))?;
    Ok(kilobytes.div_ceil(1024))
}

impl Drop for Gateway {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

pub(super) fn end(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

/// Reads where it listens; the answer may stand on several lines.
fn listening(from: std::process::ChildStdout) -> Option<SocketAddr> {
    let mut text = String::new();
    for line in BufReader::new(from).lines() {
        text.push_str(&line.ok()?);
        if let Ok(said) = serde_json::from_str::<Value>(&text) {
            return said["listening"][0].as_str()?.parse().ok();
        }
    }
    None
}

async fn answers(client: &mut Client, rounds: usize) -> Result<Option<Summary>, BenchError> {
    let mut times = Times::default();
    for _ in 0..rounds {
        let start = Instant::now();
        client.ask("config.get", json!({})).await.map_err(failed)?;
        times.push(start.elapsed());
    }
    Ok(times.summary())
}

/// Many clients, each asking at its own steady pace.
async fn crowd(gateway: &Gateway, device: &Arc<Device>) -> Result<Row, BenchError> {
    let mut clients = Vec::new();
    while clients.len() < CLIENTS {
        let group = (0..AT_ONCE.min(CLIENTS - clients.len())).map(|_| gateway.client(device));
        for client in futures_util::future::join_all(group).await {
            clients.push(client?);
        }
    }
    let pause = Duration::from_secs(1) / PER_SECOND;
    let start = Instant::now();
    let end = start + Duration::from_secs(CROWD_SECONDS.into());
    let tasks = clients.into_iter().enumerate().map(|(number, mut client)| {
        tokio::spawn(async move {
            // They do not all ask in the same moment.
            let share = u32::try_from(number % 50).unwrap_or_default();
            tokio::time::sleep(pause / 50 * share).await;
            let mut times = Vec::new();
            let mut turns = tokio::time::interval(pause);
            turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            while Instant::now() < end {
                turns.tick().await;
                let asked = Instant::now();
                client.ask("health", json!({})).await?;
                times.push(asked.elapsed());
            }
            Ok::<_, ClientError>(times)
        })
    });
    let mut all = Times::default();
    let mut count = 0_u32;
    for task in futures_util::future::join_all(tasks).await {
        let Ok(times) = task else { return Err(BenchError::Thread) };
        for time in times.map_err(failed)? {
            all.push(time);
            count += 1;
        }
    }
    let rate = f64::from(count) / start.elapsed().as_secs_f64();
    let wanted = f64::from(PER_SECOND) * f64::from(u32::try_from(CLIENTS).unwrap_or(u32::MAX));
    let shown = all.summary().map(|found| found.to_string()).unwrap_or_default();
    Ok(Row {
        job: "gateway: 500 clients, 20 requests a second each",
        ours: Measured::Figure(format!("{rate:.0}/s, {shown} ms")),
        rival: None,
        budget: format!(">= {:.0}/s", wanted * 0.95),
        verdict: if rate >= wanted * 0.95 { Verdict::Met } else { Verdict::Missed },
    })
}

/// How fast a client is answered while another asks and asks and does not read.
async fn beside_slow(
    gateway: &Gateway,
    (client, device): (&mut Client, &Arc<Device>),
    rounds: usize,
) -> Result<Option<Summary>, BenchError> {
    let mut slow = gateway.client(device).await?;
    let shouting = tokio::spawn(async move {
        for _ in 0..SHOUTS {
            // It is closed when too much waits for it.
            if slow.shout("config.get").await.is_err() {
                break;
            }
        }
        slow
    });
    let times = answers(client, rounds).await;
    shouting.abort();
    times
}

fn slow_row(alone: Option<Summary>, beside: Option<Summary>) -> Row {
    let (Some(alone), Some(beside)) = (alone, beside) else {
        return at_most("gateway: config.get beside a client that does not read", beside, 2.0);
    };
    Row {
        job: "gateway: config.get beside a client that does not read",
        verdict: within(beside.p50, 2.0 * alone.p50 + ANSWER_BUDGET),
        ours: Measured::Times(beside),
        rival: Some(("alone", alone)),
        budget: format!("<= 2x alone + {ANSWER_BUDGET} ms"),
    }
}
