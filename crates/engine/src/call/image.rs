//! `image`, as far as it is a tool: whether policy opens it, the files out of the sandbox, and a record of who was asked.
//!
//! The model is asked by the runner, which has one. What is not recorded is not asked.

use std::time::Duration;

use clawpen_rules::tools::arguments::{ImageCall, parse_image};
use clawpen_rules::tools::image::Image;
use clawpen_rules::tools::schema::IMAGE;
use serde_json::Value;

use super::desk::{Desk, Turn, Who};
use super::failure::ToolCallError;
use super::{Tally, policy, record};
use crate::audit::{Reason, Verdict};
use crate::config_store::Store;
use crate::tools::{ToolError, Tools, json};

const NAME: &str = IMAGE.name;

/// A call that may be carried out, with whoever is asked.
#[derive(Debug)]
pub struct ToLookAt<C> {
    pub call: ImageCall,
    pub chosen: C,
    /// In the order of the call's paths.
    pub images: Vec<(Image, Vec<u8>)>,
}

/// What is recorded about a model that is shown images: its name and sizes, nothing of what was asked or said.
#[derive(Debug, Clone, Copy)]
pub enum ImageNote<'a> {
    Asks { model: &'a str, bytes: u64 },
    Answered { model: &'a str, bytes: u64, took: Duration },
    Failed { model: &'a str },
}

impl Desk {
    /// Reads the images of a call, if policy opens the tool and somebody may be asked. Refusals are recorded.
    pub fn images<C>(
        &self,
        who: &Who,
        arguments: &Value,
        choose: impl FnOnce(&Store, &ImageCall) -> Result<C, ToolCallError>,
    ) -> Result<ToLookAt<C>, ToolCallError> {
        self.at(who, |turn| {
            let (call, chosen) = match turn.decide_images(arguments, choose) {
                Ok(decided) => decided,
                Err(error) => {
                    match &error {
                        ToolCallError::Closed(_) => turn.stopped(NAME, &error)?,
                        _ => turn.stopped_quoting(NAME, &error, arguments)?,
                    }
                    return Err(error);
                }
            };
            let table = turn.prepared.explanation.mount_table();
            let settings = turn.settings(&table);
            let done = super::run(turn.yard, turn.prepared, &turn.about(NAME), |open, tally| {
                let channel = open.sandbox().channel().map_err(|cause| ToolError::Call {
                    what: "reach",
                    path: String::new(),
                    cause,
                })?;
                let images = Tools::new(channel, settings).images(&call.paths, call.most)?;
                tally.bytes_out = images.iter().map(|(_, bytes)| bytes.len() as u64).sum();
                Ok::<_, ToolError>(images)
            })?;
            Ok(ToLookAt { images: done.value?, call, chosen })
        })
    }

    /// Records what becomes of the images of a call.
    pub fn note_image(&self, who: &Who, note: ImageNote<'_>) -> Result<(), ToolCallError> {
        self.at(who, |turn| {
            let about = turn.about(NAME);
            let beside = |reason: String, took: Duration, tally: Tally| {
                record::beside(turn.yard, turn.prepared, &about, (&reason, (took, tally)))
            };
            match note {
                ImageNote::Asks { model, bytes } => {
                    let tally = Tally { bytes_in: bytes, ..Tally::default() };
                    beside(format!("asks the model `{model}`"), Duration::ZERO, tally)?;
                }
                ImageNote::Answered { model, bytes, took } => {
                    let tally = Tally { bytes_out: bytes, ..Tally::default() };
                    beside(format!("the model `{model}` answered"), took, tally)?;
                }
                ImageNote::Failed { model } => {
                    let reason = Reason::new(&format!("the model `{model}` did not answer"));
                    let verdict = (Verdict::Failed, reason);
                    record::stopped(turn.yard, turn.prepared, &about, verdict)?;
                }
            }
            Ok(())
        })
    }
}

impl Turn<'_> {
    /// Whether policy opens `image` to the session.
    pub(super) fn opens_image(&self) -> bool {
        policy::ask(NAME, self.layers, (self.store, self.prepared)).is_ok()
    }

    fn decide_images<C>(
        &self,
        arguments: &Value,
        choose: impl FnOnce(&Store, &ImageCall) -> Result<C, ToolCallError>,
    ) -> Result<(ImageCall, C), ToolCallError> {
        policy::ask(NAME, self.layers, (self.store, self.prepared))?;
        let call = parse_image(&json::arguments(arguments))?;
        let chosen = choose(self.store, &call)?;
        Ok((call, chosen))
    }
}
