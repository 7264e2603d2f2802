//! What an installation of several servers has: a database, a volume for each server, and what all of them share.

use super::options::{Installation, SharedStore, Values};
use crate::yaml::scalar_text;

pub(super) fn values(installation: &Installation, shared: &SharedStore) -> Values {
    let namespace = scalar_text(&installation.namespace);
    let secret = scalar_text(&shared.secret);
    let before = format!(
        "# Gives each server a name of its own, under which its attempts report.
apiVersion: v1
kind: Service
metadata:
  name: butler-server-pods
  namespace: {namespace}
spec:
  clusterIP: None
  # Attempts report to a server that is not ready too.
  publishNotReadyAddresses: true
  selector:
    app.kubernetes.io/name: butler-server
  ports:
    - name: https
      port: 7373
      targetPort: https
---"
    );
    let rollout = format!(
        "  # One server decides; another one takes over when it fails.
  replicas: {}
  podManagementPolicy: Parallel
  serviceName: butler-server-pods",
        shared.replicas
    );
    let artifacts = shared.artifacts.as_ref().map_or_else(String::new, |url| {
        format!("\n            - name: BUTLER_ARTIFACTS\n              value: {}", scalar_text(url))
    });
    let variables = format!(
        "            - name: POD_NAME
              valueFrom:
                fieldRef:
                  fieldPath: metadata.name
            # postgres://USER:PASSWORD@HOST/DATABASE
            - name: BUTLER_STORE
              valueFrom:
                secretKeyRef:
                  name: {secret}
                  key: url
            - name: BUTLER_ACCESS_FILE
              value: /etc/butler-runner/shared/access.yaml
            - name: BUTLER_KEY_FILE
              value: /etc/butler-runner/shared/plan.key{artifacts}"
    );
    let mount = "            - name: shared
              mountPath: /etc/butler-runner/shared
              readOnly: true";
    let volume = format!(
        "        - name: shared
          secret:
            secretName: {secret}
            defaultMode: 288"
    );
    let claims = format!(
        "  volumeClaimTemplates:
    # Mirrors, and the logs and plans of the attempts that this server has started.
    - metadata:
        name: data
      spec:
{}",
        installation.claim(8)
    );
    let url = format!("https://$(POD_NAME).butler-server-pods.{}.svc:7373", installation.namespace);
    let port = format!("        - port: {}\n          protocol: TCP", shared.database_port);
    vec![
        ("before-workload", before),
        ("workload", "StatefulSet".to_owned()),
        ("rollout", rollout),
        ("shared-variables", variables),
        ("attempt-url", url),
        ("shared-mounts", mount.to_owned()),
        ("shared-volumes", volume),
        ("claims", claims),
        ("database-port", port),
    ]
}
