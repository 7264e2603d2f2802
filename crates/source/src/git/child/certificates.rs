//! The certificates that libgit2 trusts.

use super::super::failure::FetchError;
use super::super::task::Access;
use butler_base::platform::has_keychain;

/// Makes libgit2 trust the system's certificates and the additional ones. On systems with a keychain,
/// libgit2 uses the system's TLS, which does not accept additional certificates.
#[expect(
    unsafe_code,
    reason = "libgit2's settings are global; this is the only thread that uses it"
)]
pub(super) fn trust(access: &Access) -> Result<(), FetchError> {
    if has_keychain() {
        return Ok(());
    }
    // SAFETY: nothing else uses libgit2 in this process.
    unsafe {
        if let Some(file) = &access.certificates {
            // If the file cannot be read, no server is trusted, and the connection reports that.
            let _ = git2::opts::set_ssl_cert_file(file.as_path());
        }
        if let Some(bundle) = &access.ca_bundle {
            git2::opts::set_ssl_cert_file(bundle.as_path()).map_err(|error| FetchError::Git {
                act: format!("read the CA bundle `{}`", bundle.display()),
                reason: error.message().to_owned(),
            })?;
        }
    }
    Ok(())
}
