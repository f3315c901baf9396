//! What an engine does with images: pull, build, import, list, remove, export.
//!
//! Each long call hands on what the engine says, line by line, as it says it. It may take as long as it
//! likes in all; an engine that says nothing for [`UNPACKED_WITHIN`] has stopped working on it.

use std::collections::HashMap;
use std::fs::File;
use std::future::Future;
use std::io::{Read as _, Write};
use std::path::Path;
use std::time::Duration;

use bollard::errors::Error;
use bollard::models::{
    BuildInfo, ContainerCreateBody, ContainerSummaryStateEnum, CreateImageInfo, ImageSummary,
};
use bollard::query_parameters::{
    BuildImageOptionsBuilder, CreateContainerOptions, CreateImageOptionsBuilder,
    ListImagesOptionsBuilder, RemoveImageOptionsBuilder,
};
use bollard::{body_full, body_try_stream};
use futures_util::stream;

use super::{Engine, failure, next_within};
use crate::backend::docker::failure::{Action, DockerFailure};

/// On a container that is only there to be read.
const EXPORT_LABEL: &str = "clawpen.export";
/// The engine says nothing while it unpacks what it was sent.
const UNPACKED_WITHIN: Duration = Duration::from_secs(20 * 60);
/// How much of an archive is sent at once.
const PIECE: usize = 256 * 1024;

/// A Dockerfile with what it needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Build<'a> {
    /// `name:tag`.
    pub(crate) image: &'a str,
    /// An archive that holds it as `Dockerfile`.
    pub(crate) context: &'a [u8],
    pub(crate) arguments: &'a [(String, String)],
    pub(crate) labels: &'a [(String, String)],
}

/// A root file system that becomes an image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Import<'a> {
    pub(crate) archive: &'a Path,
    /// `name:tag`.
    pub(crate) image: &'a str,
}

impl Engine {
    /// Fetches an image from its registry.
    pub(crate) fn pull(
        &self,
        image: &str,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), DockerFailure> {
        let options = CreateImageOptionsBuilder::new().from_image(image).build();
        let mut answers = self.api.create_image(Some(options), None, None);
        self.follow(Action::PullImage, async {
            while let Some(answer) = next_within(&mut answers, UNPACKED_WITHIN).await? {
                told(answer, tell);
            }
            Ok(())
        })
    }

    /// Runs a Dockerfile.
    pub(crate) fn build(
        &self,
        build: Build<'_>,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), DockerFailure> {
        let Build { image, context, arguments, labels } = build;
        let map = |pairs: &[(String, String)]| pairs.iter().cloned().collect::<HashMap<_, _>>();
        let options = BuildImageOptionsBuilder::new()
            .dockerfile("Dockerfile")
            .t(image)
            .rm(true)
            .forcerm(true)
            .buildargs(&map(arguments))
            .labels(&map(labels))
            .build();
        let api = self.api.clone().with_timeout(UNPACKED_WITHIN);
        let mut answers = api.build_image(options, None, Some(body_full(context.to_vec().into())));
        self.follow(Action::BuildImage, async {
            while let Some(answer) = next_within(&mut answers, UNPACKED_WITHIN).await? {
                let BuildInfo { stream, status, .. } = answer;
                let text = stream.or(status).unwrap_or_default();
                text.lines().filter(|line| !line.trim().is_empty()).for_each(&mut *tell);
            }
            Ok(())
        })
    }

    /// Makes an image of one archive. It has no config: neither user nor command.
    pub(crate) fn import(
        &self,
        import: Import<'_>,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), DockerFailure> {
        let path = import.archive;
        let local = |cause| DockerFailure::Local { what: "read", path: path.to_owned(), cause };
        let file = File::open(path).map_err(local)?;
        let (repository, tag) = import.image.rsplit_once(':').unwrap_or((import.image, "latest"));
        let options = CreateImageOptionsBuilder::new().from_src("-").repo(repository).tag(tag);
        let pieces = stream::try_unfold(file, |mut file| async move {
            let mut piece = vec![0; PIECE];
            let length = file.read(&mut piece)?;
            piece.truncate(length);
            Ok::<_, std::io::Error>((length > 0).then_some((piece.into(), file)))
        });
        let api = self.api.clone().with_timeout(UNPACKED_WITHIN);
        let body = Some(body_try_stream(pieces));
        let mut answers = api.create_image(Some(options.build()), body, None);
        self.follow(Action::ImportImage, async {
            while let Some(answer) = next_within(&mut answers, UNPACKED_WITHIN).await? {
                told(answer, tell);
            }
            Ok(())
        })
    }

    /// Every image that has a name.
    pub(crate) fn images(&self) -> Result<Vec<ImageSummary>, DockerFailure> {
        let options = ListImagesOptionsBuilder::new().all(false).build();
        self.run(Action::ListImages, self.api.list_images(Some(options)))
    }

    /// Removes an image, or one of its names; says whether there was one.
    pub(crate) fn remove_image(&self, image: &str) -> Result<Gone, DockerFailure> {
        let options = RemoveImageOptionsBuilder::new().force(false).build();
        match self.work(self.api.remove_image(image, Some(options), None)) {
            Ok(_) => Ok(Gone::Removed),
            Err(Error::DockerResponseServerError { status_code: 404, .. }) => Ok(Gone::WasNotThere),
            Err(cause) => Err(failure(Action::RemoveImage, cause)),
        }
    }

    /// Writes an image's files as one archive. A container is made for it and never started; `mark` is
    /// what it is found by if we are killed.
    pub(crate) fn export(
        &self,
        image: &str,
        mark: &str,
        sink: &mut dyn Write,
    ) -> Result<(), DockerFailure> {
        let body = ContainerCreateBody {
            image: Some(image.to_owned()),
            labels: Some(HashMap::from([(EXPORT_LABEL.to_owned(), mark.to_owned())])),
            entrypoint: Some(vec!["/nothing".to_owned()]),
            ..ContainerCreateBody::default()
        };
        let options = None::<CreateContainerOptions>;
        let made = self.run(Action::ExportImage, self.api.create_container(options, body))?;
        let api = self.api.clone().with_timeout(UNPACKED_WITHIN);
        let mut pieces = api.export_container(&made.id);
        let written = self.follow(Action::ExportImage, async {
            while let Some(piece) = next_within(&mut pieces, UNPACKED_WITHIN).await? {
                sink.write_all(&piece)?;
            }
            Ok(())
        });
        let removed = self.remove(&made.id);
        written.and(removed)
    }

    /// A call without an end of its own: each of its pieces has one.
    fn follow<T>(
        &self,
        action: Action,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, DockerFailure> {
        self.runtime.block_on(call).map_err(|cause| failure(action, cause))
    }

    /// Removes containers that were only made for an export with this mark.
    pub(crate) fn remove_exports(&self, mark: &str) -> Result<(), DockerFailure> {
        for found in self.labelled(&format!("{EXPORT_LABEL}={mark}"))? {
            // One that was started is somebody's, whatever its image's labels say.
            if found.state == Some(ContainerSummaryStateEnum::CREATED) {
                self.remove(&found.id.unwrap_or_default())?;
            }
        }
        Ok(())
    }
}

/// What became of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    Removed,
    WasNotThere,
}

fn told(answer: CreateImageInfo, tell: &mut dyn FnMut(&str)) {
    let text = answer.status.unwrap_or_default();
    if !text.is_empty() {
        tell(&text);
    }
}
