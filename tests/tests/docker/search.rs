//! `grep` and `find` in containers: where nothing can be written and run, as any user, over hostile trees.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::process::Command as Program;

use anyhow::{Result, ensure};
use clawpen_engine::backend::docker::Pen;
use clawpen_engine::supervisor_image;
use clawpen_engine::tools::{Block, Settings, Tools};
use clawpen_rules::tools::FileTool;
use clawpen_tests::docker::{Place, SCRATCH};
use clawpen_wire::pen::Lifetime;
use clawpen_wire::supervisor::End;
use serde_json::{Value, json};

use crate::pen::{run, sh};

/// What the model sees.
fn ask(pen: &mut Pen, tool: FileTool, arguments: &Value) -> Result<String> {
    let answer = Tools::new(pen.channel()?, Settings::new("/workspace")).run(tool, arguments);
    Ok(match answer {
        Ok(answer) => match answer.content.into_iter().next() {
            Some(Block::Text(text)) => text,
            other => format!("{other:?}"),
        },
        Err(error) => format!("refused: {}", error.for_model()),
    })
}

#[test]
fn a_search_needs_nothing_of_the_image_and_no_place_to_write() -> Result<()> {
    for (config, uid) in [
        (format!("{{image: '{SCRATCH}', readOnlyRoot: true, tmpfs: []}}"), 65534),
        ("{readOnlyRoot: true, user: '4711:4712'}".to_owned(), 4711),
        ("{readOnlyRoot: true, user: '0:0', memory: '64m', pidsLimit: 16}".to_owned(), 0),
    ] {
        let Some(place) = Place::new()? else { return Ok(()) };
        place.owned_by(uid, uid)?;
        fs::create_dir(place.path("workspace/src"))?;
        fs::write(place.path("workspace/src/a.rs"), "one\nneedle\n")?;
        let backend = place.backend(supervisor_image::IMAGE)?;
        let mut pen = Pen::start(&backend, &place.spec(&config)?, Lifetime::UntilDisconnect)?;
        let grep = json!({ "pattern": "need.e" });
        assert_eq!(ask(&mut pen, FileTool::Grep, &grep)?, "src/a.rs:2: needle", "{config}");
        let find = json!({ "pattern": "*.rs" });
        assert_eq!(ask(&mut pen, FileTool::Find, &find)?, "src/a.rs", "{config}");
        pen.remove()?;
    }
    Ok(())
}

#[test]
fn nothing_in_a_container_replaces_or_impersonates_the_search() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    place.owned_by(1000, 1000)?;
    let backend = place.backend(supervisor_image::IMAGE)?;
    let mut pen = Pen::start(&backend, &place.spec("{}")?, Lifetime::UntilDisconnect)?;
    // Programs of every name that it could have, first in every place that could be searched; hooks for what reads them.
    sh(
        &mut pen,
        "for name in clawpen-search search grep find rg supervisor; do printf '#!/bin/sh\\ntouch /workspace/lied\\n' > $name; \
         chmod 755 $name; cp $name /tmp/ ; done; echo /workspace/x.so > ld.so.preload; echo truth > t",
    )?;
    // A command that stays, waits for the search, and tries to stop, trace and write into it.
    let hunter = "trap '' TERM; (while :; do for p in /proc/[0-9]*; do \
        case $(tr '\\0' ' ' < $p/cmdline 2>/dev/null) in clawpen-search*) \
          for f in mem exe maps; do (: < $p/$f) 2>/dev/null && echo $f >> /workspace/reached; done; echo seen >> /workspace/seen;; esac; \
        done; done) >/dev/null 2>&1 & echo $! > /workspace/hunter";
    let mut channel = clawpen_engine::channel::Command::new(["sh", "-c"]);
    channel.argv.push(format!("{hunter}; wait").into());
    pen.channel()?.start(&channel, 1024)?;
    for _ in 0..40 {
        let found = ask(&mut pen, FileTool::Grep, &json!({ "pattern": "^truth$" }))?;
        assert_eq!(found, "t:1: truth");
    }
    assert!(!place.path("workspace/lied").exists());
    ensure!(!place.path("workspace/reached").exists(), "somebody got at the search");
    Ok(())
}

#[test]
fn a_hostile_tree_holds_no_search_up_and_leads_nowhere() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let work = place.path("workspace");
    fs::write(place.path("outside"), "needle\n")?;
    symlink(place.path("outside"), work.join("out"))?;
    symlink("/", work.join("everything"))?;
    symlink("/proc/1/environ", work.join("environ"))?;
    fs::create_dir(work.join("d"))?;
    symlink("/dev/zero", work.join("d/.gitignore"))?;
    symlink("..", work.join("d/up"))?;
    let pipes =
        Program::new("mkfifo").args([work.join(".gitignore"), work.join("pipe")]).status()?;
    ensure!(pipes.success(), "mkfifo");
    fs::write(work.join("z"), "needle\n")?;
    fs::File::create(work.join("sparse"))?.set_len(1 << 30)?;
    let mut deep = work.clone();
    for _ in 0..500 {
        deep.push("deep");
    }
    fs::create_dir_all(&deep)?;
    fs::write(deep.join("bottom"), "needle\n")?;
    for entry in ["", ".gitignore", "pipe", "d", "z", "sparse"] {
        chown(work.join(entry), Some(1000), Some(1000))?;
    }
    let backend = place.backend(supervisor_image::IMAGE)?;
    let spec = place.spec("{memory: '96m'}")?;
    let mut pen = Pen::start(&backend, &spec, Lifetime::UntilDisconnect)?;
    let bottom = "deep/".repeat(500) + "bottom:1: needle";
    let found = ask(&mut pen, FileTool::Grep, &json!({ "pattern": "needle" }))?;
    assert_eq!(found, format!("{bottom}\nz:1: needle"));
    for way_out in ["out", "everything", "environ", "pipe", "../outside", "d/up/out"] {
        let said = ask(&mut pen, FileTool::Grep, &json!({ "pattern": ".", "path": way_out }))?;
        assert!(
            said.starts_with("refused: ") || said.contains("neither a file"),
            "{way_out}: {said}"
        );
    }
    // A gigabyte of text without a match, in far less memory than that; in its time, or with a word that it was over.
    sh(&mut pen, "yes 'a line of hay, and one more, and a third one' | head -c 1G > big")?;
    let found = ask(&mut pen, FileTool::Grep, &json!({ "pattern": "needle", "path": "big" }))?;
    ensure!(found.starts_with("(no line matches)") && !found.contains("cut off"), "{found}");
    assert_eq!(run(&mut pen, &["true"])?.0, End::Code(0));
    Ok(())
}
