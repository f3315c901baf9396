//! `clawpen image`: makes, lists, checks, removes and unpacks the images of sandboxes.
//!
//! `check` ends with 1 if an image is missing or not as it should be.

use std::path::Path;
use std::time::{Duration, Instant};

use clawpen_engine::config_store;
use clawpen_engine::images::{Checked, Gone, Image, Images, Kind, Method, Order, Recipe, name_of};
use serde_json::{Value, json};

use super::CommandError;
use crate::args::{Format, ImageBuildArgs, ImageCommand, ImageExportArgs};
use crate::exit::{self, Outcome};
use crate::output::{Output, safe};

/// Without a terminal: often enough to see that it goes on, seldom enough for a log.
const TOLD_EVERY: Duration = Duration::from_secs(5);

pub(crate) fn run(command: &ImageCommand, output: &Output) -> Result<Outcome, CommandError> {
    let state_dir = config_store::open()?.locations.state_dir;
    match command {
        ImageCommand::Build(args) => build(args, &state_dir, output),
        ImageCommand::List(format) => list(&state_dir, format.format(), output),
        ImageCommand::Check { image, format } => {
            check(image.as_deref(), &state_dir, format.format(), output)
        }
        ImageCommand::Rm { image, format } => remove(image, &state_dir, format.format(), output),
        ImageCommand::Export(args) => export(args, &state_dir, output),
    }
}

/// Makes the image that a sandbox lacks, with every default.
pub(crate) fn make_missing(
    kind: Kind,
    state_dir: &str,
    output: &Output,
) -> Result<(), CommandError> {
    output.note(&format!("note: image {} is missing and made first", kind.image()));
    let recipe = Recipe::plain(kind);
    let order = Order { recipe, image: kind.image().to_owned(), method: Method::Auto };
    let images = Images::connect(state_dir)?;
    let mut progress = Progress::new(output);
    let built = images.build(&order, &mut |line| progress.tell(line));
    output.status("");
    built.map(drop).map_err(|cause| CommandError::Image { image: order.image, cause })
}

fn build(args: &ImageBuildArgs, state_dir: &str, output: &Output) -> Result<Outcome, CommandError> {
    let recipe = recipe(&args.kind, &args.set)?;
    let recipe = if args.offline { recipe.offline() } else { recipe };
    let image = args.tag.clone().unwrap_or_else(|| recipe.kind().image().to_owned());
    let method = Method::parse(&args.method).unwrap_or(Method::Auto);
    let order = Order { recipe, image, method };
    let images = Images::connect(state_dir)?;
    let mut progress = Progress::new(output);
    let built = images.build(&order, &mut |line| progress.tell(line));
    output.status("");
    let built = built.map_err(|cause| CommandError::Image { image: order.image, cause })?;
    let seconds = built.took.as_secs_f64();
    match args.format.format() {
        Format::Json => output.json(&json!({
            "image": built.image,
            "kind": order.recipe.kind().as_str(),
            "id": built.id,
            "sizeBytes": built.size,
            "recipe": built.recipe,
            "method": built.method.as_str(),
            "seconds": (seconds * 10.0).round() / 10.0,
            "log": built.log,
        }))?,
        Format::Text => output.text(&format!(
            "made {} ({}) in {seconds:.0} s, from {}\n",
            safe(&built.image),
            size(built.size),
            match built.method {
                Method::Packages => "Debian packages",
                Method::Dockerfile | Method::Auto => "its Dockerfile",
            }
        ))?,
    }
    Ok(Outcome::Done)
}

/// A kind with the parameters that were set.
fn recipe(kind: &str, set: &[String]) -> Result<Recipe, CommandError> {
    let unknown = || CommandError::Question {
        what: format!("`{}` is none of our images; write base, common or browser", safe(kind)),
    };
    let mut recipe = Recipe::plain(Kind::parse(kind).ok_or_else(unknown)?);
    for pair in set {
        let (name, value) = pair.split_once('=').ok_or_else(|| CommandError::Question {
            what: format!("--set {} is no parameter; write it as NAME=VALUE", safe(pair)),
        })?;
        recipe = recipe.with(name, value)?;
    }
    Ok(recipe)
}

/// Far too much is said to show all of it; the log has it. On a terminal one line is redrawn; elsewhere a
/// line appears for each step, and now and then in between.
struct Progress<'a> {
    output: &'a Output,
    start: Instant,
    told: Option<Instant>,
}

impl<'a> Progress<'a> {
    fn new(output: &'a Output) -> Self {
        Self { output, start: Instant::now(), told: None }
    }

    fn tell(&mut self, line: &str) {
        let line = line.trim();
        if line.is_empty() {
            return;
        }
        let short = safe(&line.chars().take(76).collect::<String>());
        if self.output.has_status() {
            self.output.status(&short);
            return;
        }
        let is_due = self.told.is_none_or(|told| told.elapsed() >= TOLD_EVERY);
        if is_due || line.starts_with("Step ") {
            self.told = Some(Instant::now());
            self.output.note(&format!("{:4} s  {short}", self.start.elapsed().as_secs()));
        }
    }
}

fn list(state_dir: &str, format: Format, output: &Output) -> Result<Outcome, CommandError> {
    let images = Images::connect(state_dir)?;
    let found = images.list()?;
    let missing =
        Kind::ALL.into_iter().filter(|kind| !found.iter().any(|image| image.name == kind.image()));
    let missing: Vec<Kind> = missing.collect();
    match format {
        Format::Json => {
            let (make, version, at) = images.engine();
            output.json(&json!({
                "engine": {"make": make, "version": version, "at": at},
                "images": found.iter().map(as_json).collect::<Vec<_>>(),
                "missing": missing.iter().map(|kind| kind.image()).collect::<Vec<_>>(),
            }))?;
        }
        Format::Text => {
            let mut lines = vec![output.bold(&row(["IMAGE", "SIZE", "STATE", "MADE FROM"]))];
            lines.extend(found.iter().map(|image| {
                let from = image.method.as_deref().unwrap_or("-");
                row([&safe(&image.name), &size(image.size), image.state.as_str(), &safe(from)])
            }));
            lines.extend(missing.iter().map(|kind| {
                let note = format!("clawpen image build {kind}");
                row([kind.image(), "-", "missing", &note])
            }));
            output.lines(&lines)?;
        }
    }
    Ok(Outcome::Done)
}

fn row([name, size, state, from]: [&str; 4]) -> String {
    format!("{name:<42} {size:>8}  {state:<8} {from}").trim_end().to_owned()
}

fn as_json(image: &Image) -> Value {
    json!({
        "image": image.name,
        "id": image.id,
        "kind": image.kind.map(Kind::as_str),
        "sizeBytes": image.size,
        "created": image.created,
        "state": image.state.as_str(),
        "method": image.method,
    })
}

fn check(
    image: Option<&str>,
    state_dir: &str,
    format: Format,
    output: &Output,
) -> Result<Outcome, CommandError> {
    let images = Images::connect(state_dir)?;
    let names = match image {
        Some(name) => vec![name],
        None => Kind::ALL.map(Kind::image).to_vec(),
    };
    let checked: Vec<Checked> =
        names.iter().map(|name| images.check(name)).collect::<Result<_, _>>()?;
    match format {
        Format::Json => {
            let entry = |checked: &Checked| {
                json!({
                    "image": checked.name,
                    "present": checked.image.is_some(),
                    "state": checked.image.as_ref().map(|image| image.state.as_str()),
                    "id": checked.image.as_ref().map(|image| image.id.as_str()),
                    "platform": checked.platform,
                    "user": checked.user,
                    "problems": checked.problems,
                })
            };
            output.json(&checked.iter().map(entry).collect::<Vec<_>>())?;
        }
        Format::Text => {
            let mut lines = Vec::new();
            for checked in &checked {
                let word = if checked.problems.is_empty() { "ok" } else { "not ok" };
                let state = checked.image.as_ref().map_or("missing", |image| image.state.as_str());
                lines.push(format!("{word:<7} {} ({state})", safe(&checked.name)));
                let problem = |problem: &String| format!("        {}", safe(problem));
                lines.extend(checked.problems.iter().map(problem));
            }
            output.lines(&lines)?;
        }
    }
    let is_sound = checked.iter().all(|checked| checked.problems.is_empty());
    Ok(if is_sound { Outcome::Done } else { Outcome::Code(exit::ERROR) })
}

fn remove(
    image: &str,
    state_dir: &str,
    format: Format,
    output: &Output,
) -> Result<Outcome, CommandError> {
    let gone = Images::connect(state_dir)?.remove(image)?;
    let name = name_of(image);
    match (format, gone) {
        (Format::Json, _) => {
            output.json(&json!({"image": name, "removed": gone == Gone::Removed}))?;
        }
        (Format::Text, Gone::Removed) => output.text(&format!("removed {}\n", safe(name)))?,
        (Format::Text, Gone::WasNotThere) => {
            output.text(&format!("there is no {}\n", safe(name)))?;
        }
    }
    Ok(Outcome::Done)
}

fn export(
    args: &ImageExportArgs,
    state_dir: &str,
    output: &Output,
) -> Result<Outcome, CommandError> {
    let start = Instant::now();
    let directory = absolute(&args.directory)?;
    if args.from_packages {
        let recipe = recipe(&args.image, &[])?.offline();
        let mut progress = Progress::new(output);
        let tell = &mut |line: &str| progress.tell(line);
        let made = Images::unpack(&recipe, state_dir, &directory, tell);
        output.status("");
        let image = recipe.kind().image().to_owned();
        made.map_err(|cause| CommandError::Image { image, cause })?;
    } else {
        let mut progress = Progress::new(output);
        let tell = &mut |line: &str| progress.tell(line);
        let made = Images::connect(state_dir)?.export(&args.image, &directory, tell);
        output.status("");
        made?;
    }
    let shown = directory.display().to_string();
    match args.format.format() {
        Format::Json => output.json(&json!({
            "image": name_of(&args.image),
            "directory": shown,
            "seconds": (start.elapsed().as_secs_f64() * 10.0).round() / 10.0,
        }))?,
        Format::Text => output.text(&format!(
            "unpacked to {0}; use it with native.rootfs in clawpen.json:\n  \
             {{defaults: {{backend: \"native\", native: {{rootfs: \"{0}\"}}}}}}\n",
            safe(&shown)
        ))?,
    }
    Ok(Outcome::Done)
}

fn absolute(path: &Path) -> Result<std::path::PathBuf, CommandError> {
    std::path::absolute(path)
        .map_err(|cause| CommandError::Write { path: path.display().to_string(), cause })
}

/// In the unit that a person would use.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes / 1000),
        1_000_000..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{}.{} GB", bytes / 1_000_000_000, bytes / 100_000_000 % 10),
    }
}
