//! Steps of a longer command: each is run even if one before it failed, and the end says how each
//! went and how long it took.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;

/// The steps so far.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    done: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    name: &'static str,
    took: Duration,
    failure: Option<String>,
}

impl Steps {
    /// Runs one step.
    pub(crate) fn run(&mut self, name: &'static str, step: impl FnOnce() -> Result<()>) {
        println!("\n== {name}");
        let start = Instant::now();
        let failure = step().err().map(|error| format!("{error:#}"));
        if let Some(why) = &failure {
            println!("{why}");
        }
        self.done.push(Step { name, took: start.elapsed(), failure });
    }

    /// Prints the summary; a failed step fails the whole.
    pub(crate) fn finish(self) -> ExitCode {
        println!("\n== summary");
        for Step { name, took, failure } in &self.done {
            let seconds = took.as_secs_f64();
            match failure {
                None => println!("  ok      {seconds:7.1} s  {name}"),
                Some(why) => {
                    println!("  FAILED  {seconds:7.1} s  {name}: {}", first_line(why));
                }
            }
        }
        if self.done.iter().all(|step| step.failure.is_none()) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
