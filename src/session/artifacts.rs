//! The files that tools return, kept with their session for its owner, and the images that clients
//! send.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};
use uuid::Uuid;

use super::store::{Artifact, Store, StoreError};
use crate::limits::session as limits;
use crate::limits::tools::{FILE_BYTES_MAX, FILES_MAX};
use crate::tools::{ListedFile, ToolFile, ToolResult};
use crate::upstream::{Image, Images};

/// Keeps an owner's files in a store.
#[derive(Debug, Clone)]
pub(crate) struct Artifacts {
    store: Arc<dyn Store>,
    owner: Arc<str>,
    /// The images in the turn's request, oldest first. They need no store: a client that keeps its
    /// conversation sends them again.
    request_images: Arc<[Image]>,
}

/// The path at which clients read a file, up to its id.
pub(crate) const ARTIFACTS: &str = "/api/v1/artifacts/";

/// How long a store that fails is asked again, for all files of a result together.
#[derive(Debug)]
struct Patience {
    until: Instant,
    /// Why the last attempt failed. Once the time is up, a store that has failed is not asked again.
    failed: Option<StoreError>,
}

impl Artifacts {
    pub(crate) fn new(store: Arc<dyn Store>, owner: &str) -> Self {
        Self { store, owner: owner.into(), request_images: Arc::default() }
    }

    /// The same for a turn whose request brings these images.
    pub(crate) fn beside(self, images: Vec<Image>) -> Self {
        Self { request_images: images.into(), ..self }
    }

    /// Keeps the images of the request in this session, for later turns. Those that cannot be kept
    /// are seen in this turn alone.
    pub(crate) async fn keep_images(&self, session_id: &str) {
        for Image { id, mime_type, bytes } in &*self.request_images {
            let (id, mime_type) = (id.clone(), (*mime_type).to_owned());
            let artifact = self.artifact(id, None, mime_type, bytes.clone());
            if let Err(error) = self.store.keep_artifact(session_id, artifact).await {
                warn!(%error, "a client's image is not kept");
            }
        }
    }

    /// Keeps the files of a result, and lists them there, each with its address. Whatever cannot be
    /// kept is listed with the reason. A store that fails is asked again, for all of them together as long
    /// as a turn waits: a call that changes something cannot be made again for its files.
    pub(crate) async fn keep(&self, session_id: &str, result: &mut ToolResult) {
        let mut patience = Patience { until: Instant::now() + self.store.wait(), failed: None };
        let mut listed = Vec::new();
        for (at, file) in std::mem::take(&mut result.files).into_iter().enumerate() {
            let list = file.listed();
            listed.push(match self.keep_one(session_id, (at, file), &mut patience).await {
                Ok(id) => {
                    let url = Some(format!("{ARTIFACTS}{id}"));
                    ListedFile { id: Some(id), url, ..list }
                }
                Err(reason) => ListedFile { error: Some(reason), ..list },
            });
        }
        result.list_files(listed);
    }

    async fn keep_one(
        &self,
        session_id: &str,
        (at, file): (usize, ToolFile),
        patience: &mut Patience,
    ) -> Result<String, String> {
        let ToolFile { name, mime_type, bytes } = file;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(format!("not kept: longer than {} MiB", FILE_BYTES_MAX >> 20));
        }
        if at >= FILES_MAX {
            return Err(format!("not kept: a result may have {FILES_MAX} files"));
        }
        let id = Uuid::new_v4().simple().to_string();
        let artifact = self.artifact(id.clone(), name, mime_type, bytes);
        match self.keep_patiently(patience, session_id, artifact).await {
            Ok(()) => Ok(id),
            Err(error) => {
                warn!(%error, "a tool's file is not kept");
                Err("not kept: the session store did not accept it".to_owned())
            }
        }
    }

    /// Keeps a file, and tries again as long as there is patience. The time that an attempt takes is up to the store.
    async fn keep_patiently(
        &self,
        patience: &mut Patience,
        session_id: &str,
        artifact: Artifact,
    ) -> Result<(), StoreError> {
        loop {
            let is_over = Instant::now() >= patience.until;
            if let Some(failed) = patience.failed.clone().filter(|_| is_over) {
                return Err(failed);
            }
            let kept = self.store.keep_artifact(session_id, artifact.clone()).await;
            let is_away = matches!(kept, Err(StoreError::Unavailable(_)));
            patience.failed = kept.clone().err().filter(|_| is_away);
            if !is_away {
                return kept;
            }
            let again_at = Instant::now() + limits::STORE_RETRY_INTERVAL;
            sleep_until(again_at.min(patience.until)).await;
        }
    }

    fn artifact(
        &self,
        id: String,
        name: Option<String>,
        mime_type: String,
        bytes: Bytes,
    ) -> Artifact {
        Artifact { owner: self.owner.to_string(), id, name, mime_type, bytes }
    }

    /// The images with these ids, as far as they are still kept and are what they claim to be.
    pub(crate) async fn images(&self, ids: Vec<String>) -> Images {
        let mut images = Images::new();
        for id in ids {
            if let Some(image) = self.image(&id).await {
                images.insert(id, image);
            }
        }
        images
    }

    async fn image(&self, id: &str) -> Option<Image> {
        if let Some(image) = self.request_images.iter().find(|image| image.id == id) {
            return Some(image.clone());
        }
        match self.get(id).await {
            Ok(artifact) => {
                let image = Image::read(id.to_owned(), artifact?.bytes);
                if image.is_none() {
                    debug!(artifact = id, "not an image, so the model does not see it");
                }
                image
            }
            Err(error) => {
                warn!(%error, "the model does not see an image");
                None
            }
        }
    }

    /// The owner's file with this id, if it is still kept.
    pub(crate) async fn get(&self, id: &str) -> Result<Option<Artifact>, StoreError> {
        let artifact = self.store.artifact(id).await?;
        Ok(artifact.filter(|artifact| *artifact.owner == *self.owner))
    }
}
