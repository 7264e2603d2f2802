//! Another S3 server for one test: `s3s-fs`, whose buckets are directories, and which verifies every signature.

use std::path::Path;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;

use super::threads::serve;

/// The only bucket.
pub const BUCKET: &str = "copies";

const ACCESS_KEY: &str = "access";
const SECRET_KEY: &str = "secret";

/// Listens until the test ends.
pub struct FileS3 {
    port: u16,
}

impl FileS3 {
    /// A server whose buckets are in `directory`.
    pub fn start(directory: &Path) -> Self {
        std::fs::create_dir(directory.join(BUCKET)).unwrap();
        let mut builder = S3ServiceBuilder::new(FileSystem::new(directory).unwrap());
        builder.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let router = Router::new().fallback(answer).with_state(builder.build());
        Self { port: serve(router) }
    }

    /// The variables of a client.
    pub fn variables(&self) -> Vec<String> {
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        [
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ENDPOINT_URL", &endpoint),
        ]
        .map(|(name, value)| format!("{name}={value}"))
        .to_vec()
    }
}

async fn answer(State(service): State<S3Service>, request: Request) -> Response {
    let request = request.map(s3s::Body::http_body_unsync);
    service.call(request).await.unwrap().map(Body::new).into_response()
}
