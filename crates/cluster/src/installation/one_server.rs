//! What an installation of one server has: a volume, which has the store too.

use super::options::{Installation, Values};
use crate::yaml::scalar_text;

pub(super) fn values(installation: &Installation) -> Values {
    let namespace = scalar_text(&installation.namespace);
    let claim = format!(
        "# The store, mirrors, logs and plans.
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: butler-data
  namespace: {namespace}
spec:
{}
---",
        installation.claim(2)
    );
    vec![
        ("before-workload", claim),
        ("workload", "Deployment".to_owned()),
        (
            "rollout",
            "  replicas: 1
  # One server at a time uses the volume.
  strategy:
    type: Recreate"
                .to_owned(),
        ),
        ("attempt-url", format!("https://butler-server.{}.svc:7373", installation.namespace)),
        (
            "data-volume",
            "        - name: data
          persistentVolumeClaim:
            claimName: butler-data"
                .to_owned(),
        ),
    ]
}
