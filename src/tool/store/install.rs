//! Installs and removes versions.
//!
//! A version is complete or absent: its directory appears in one rename, with everything in it
//! synced, and disappears in one rename.

use std::fs::{File, Permissions};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tokio_util::sync::CancellationToken;

use crate::tool::error::ToolError;
use crate::tool::fetch::release::VerifiedArchive;
use crate::tool::store::archive;
use crate::tool::store::cache::{Cache, RECORD};
use crate::tool::store::error::CacheError;
use crate::tool::store::record::{self, Identity, Record};
use crate::tool::store::usage::Unused;
use crate::tool::vendor::product::Vendored as _;
use crate::tool::version_query::confirm_version;
use butler_base::platform::fs::{PermissionsExt, sync_directory};
use butler_protocol::spec::ToolRequest;

impl Cache {
    /// Installs `request` from its archive. Needs the version's lock.
    pub(in crate::tool) fn install(
        &self,
        request: &ToolRequest,
        archive: VerifiedArchive,
        abandoned: &CancellationToken,
    ) -> Result<PathBuf, ToolError> {
        let product = self.prepare(request.product)?;
        self.remove_incomplete(request)?;
        let write = |path: &Path| {
            let path = path.to_owned();
            |source| CacheError::Write { path, source }
        };
        let staged = self.staging_directory(request).map_err(write(&product))?;
        let name = request.product.file_name();
        let path = staged.path().join(&name);
        let mut file = File::create_new(&path).map_err(write(&path))?;
        let packaging = request.product.packaging();
        let sum = archive::unpack(packaging, &archive.file, &name, (&mut file, &path), abandoned)?;
        // Independent of the umask: all users may run it, only its owner may change it.
        file.set_permissions(Permissions::from_mode(0o755)).map_err(write(&path))?;
        file.sync_all().map_err(write(&path))?;
        let is_named = archive.trusted.fingerprint().is_some() && request.product.names_version();
        let record = Record {
            platform: self.platform().to_string(),
            executable_sha256: sum,
            archive_sha256: archive.sha256,
            archive_url: archive.url.clone(),
            signer: archive.trusted,
            installed_at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            identity: Identity::from(&file.metadata().map_err(write(&path))?),
        };
        drop(file);
        // The signed file name does not contain the version, so the executable must print it.
        if !is_named {
            confirm_version(request, &path, &archive.url, abandoned)?;
        }
        record::write(&staged.path().join(RECORD), &record).map_err(write(&path))?;
        sync_directory(staged.path()).map_err(write(&path))?;

        let directory = self.version(request);
        if std::fs::symlink_metadata(&directory).is_ok() {
            // The refused version is renamed, and deleted afterwards.
            let discarded = self.staging_directory(request).map_err(write(&product))?;
            std::fs::rename(&directory, discarded.path().join("refused"))
                .map_err(write(&directory))?;
        }
        std::fs::rename(staged.path(), &directory).map_err(write(&directory))?;
        // The directory was renamed, so the guard must not delete it.
        let _ = staged.keep();
        sync_directory(&product).map_err(write(&product))?;
        Ok(directory.join(name))
    }

    /// Removes `request`: renames it while no process can begin to use it, and then deletes it. Returns
    /// its size in bytes. Needs the version's lock.
    pub(in crate::tool) fn remove(
        &self,
        request: &ToolRequest,
        unused: Unused,
    ) -> Result<u64, CacheError> {
        self.remove_incomplete(request)?;
        let directory = self.version(request);
        let write = |source| CacheError::Write { path: directory.clone(), source };
        let bytes = self.size(request);
        let discarded = self.staging_directory(request).map_err(write)?;
        std::fs::rename(&directory, discarded.path().join("removed")).map_err(write)?;
        drop(unused);
        let path = discarded.path().to_owned();
        if let Err(error) =
            sync_directory(&self.product(request.product)).and_then(|()| discarded.close())
        {
            tracing::warn!(path = %path.display(), %error, "cannot delete all files of the removed version");
        }
        Ok(bytes)
    }

    /// Removes the notes and the lock file of `request`, which is not installed. Needs the version's
    /// lock. A process that waits for one of these files creates it again.
    pub(in crate::tool) fn remove_traces(&self, request: &ToolRequest, _unused: Unused) {
        // Leftovers are harmless. The rename keeps another process from locking a file that is deleted
        // next.
        let _ = self.staging_directory(request).and_then(|discarded| {
            std::fs::rename(self.users(request), discarded.path().join("users"))?;
            discarded.close()
        });
        let _ = std::fs::remove_file(self.lock_file(request));
    }

    /// Deletes the incomplete directories of killed installations of `request`.
    fn remove_incomplete(&self, request: &ToolRequest) -> Result<(), CacheError> {
        for path in self.partial(request)? {
            std::fs::remove_dir_all(&path).map_err(|source| CacheError::Write { path, source })?;
        }
        Ok(())
    }
}
