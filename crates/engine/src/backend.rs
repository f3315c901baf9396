//! The ways to make a sandbox. The set is closed: an enum, not a trait object.
//!
//! A backend makes, proves and removes sandboxes. Running commands and moving files is not its
//! business: once connected, every sandbox speaks the supervisor's protocol.

pub mod docker;
pub mod native;

use std::path::{Path, PathBuf};

use clawpen_rules::backend::Backend;
use clawpen_rules::config::sandbox::DockerConfig;
use clawpen_rules::container::ContainerSpec;
use clawpen_rules::facts::Line;
use clawpen_rules::native::NativePen;
use clawpen_wire::pen::Lifetime;

use crate::channel::{CallError, Channel};

/// What to make, decided.
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    Native(Box<NativePlan>),
    Docker(Box<ContainerSpec>),
}

/// A native pen and what must be in force besides the floor.
#[derive(Debug, Clone, PartialEq)]
pub struct NativePlan {
    pub pen: NativePen,
    pub require: Vec<native::Requirement>,
}
