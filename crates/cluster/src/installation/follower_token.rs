//! What an installation has so that Jobs can ask the server about followers: a token, and a way to the server.

use secrecy::ExposeSecret as _;

use super::command_job::{FOLLOWER_JOB_NAME, FOLLOWER_TOKEN_SECRET, service};
use super::options::{Installation, Values};
use crate::yaml::scalar_text;

/// The directory of the token in the pods of the server.
const DIRECTORY: &str = "/etc/butler-runner/follower";

/// The values of the template; none for a server without followers.
pub(super) fn values(installation: &Installation) -> Values {
    let Some(token) = &installation.follower_token else { return Vec::new() };
    let token_file = format!(
        "            - name: BUTLER_FOLLOWER_TOKEN_FILE
              value: {DIRECTORY}/token"
    );
    // The attempts of one server use this host too.
    let host = installation.shared.as_ref().map(|_| {
        format!(
            "            # Jobs of `butler-runner follower` use the name of the Service.
            - name: BUTLER_ALLOWED_HOST
              value: {}",
            service(&installation.namespace)
        )
    });
    let variables = [Some(token_file), host].into_iter().flatten().collect::<Vec<_>>().join("\n");
    let secret = format!(
        "# The token of Jobs of `butler-runner follower`. It reads and triggers followers only.
apiVersion: v1
kind: Secret
metadata:
  name: {FOLLOWER_TOKEN_SECRET}
  namespace: {}
stringData:
  token: {}
---",
        scalar_text(&installation.namespace),
        token.expose_secret()
    );
    let mount = format!(
        "            - name: follower-token
              mountPath: {DIRECTORY}
              readOnly: true"
    );
    let volume = format!(
        "        - name: follower-token
          secret:
            secretName: {FOLLOWER_TOKEN_SECRET}
            optional: true
            defaultMode: 288"
    );
    let ingress = format!(
        "        # Jobs of `butler-runner follower`.
        - podSelector:
            matchLabels:
              app.kubernetes.io/name: {FOLLOWER_JOB_NAME}"
    );
    vec![
        ("follower-token-variables", variables),
        ("follower-token-secret", secret),
        ("follower-token-mount", mount),
        ("follower-token-volume", volume),
        ("follower-token-ingress", ingress),
    ]
}
