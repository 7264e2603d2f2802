//! A layer whose resources are files, which a real provider manages.

use super::*;
use butler_testing::files_provider::FilesProvider;

/// A server with one layer, and the directory of its files.
pub(super) struct Files {
    pub(super) installation: Installation,
    pub(super) repository: Repository,
    pub(super) managed: PathBuf,
    /// Its mirror exists as long as the server runs.
    pub(super) provider: FilesProvider,
}

impl Files {
    /// Starts a server whose only layer `name` has the `module` for a directory of files, and the
    /// settings `more`.
    pub(super) async fn serve(
        name: &str,
        more: &str,
        module: impl FnOnce(&Path) -> String,
    ) -> Self {
        let (installation, provider) = (Installation::new(), FilesProvider::unpack());
        let managed = installation.path("managed");
        std::fs::create_dir(&managed).unwrap();
        let repository = Repository::create(&[("module/main.tf", &*module(&managed))]);
        let mirror = provider.mirror();
        installation.configure(&format!(
            "repositories: {{infra: {{url: '{}'}}}}
layers:
  {name}:
    repository: infra
    path: module
    strategy: auto
    backend: {{type: local}}
    isolation: {{read: ['{}'], write: ['{}']}}
    {more}
",
            repository.url(),
            mirror.display(),
            managed.display(),
        ));
        let sources = format!("{{filesystemMirror: {{path: '{}'}}}}", mirror.display());
        let settings = format!("terraformrc: {{providerInstallation: {sources}}}\n");
        std::fs::write(installation.path("settings.yaml"), settings).unwrap();
        let mut files = Self { installation, repository, managed, provider };
        files.start().await;
        files
    }

    /// Starts the server, also after it was killed.
    pub(super) async fn start(&mut self) {
        let settings = self.installation.path("settings.yaml").display().to_string();
        self.installation.serve(&["--settings".to_owned(), settings]).await;
    }

    /// The content of a file; empty if it does not exist.
    pub(super) fn content(&self, name: &str) -> String {
        std::fs::read_to_string(self.managed.join(name)).unwrap_or_default()
    }

    pub(super) fn write(&self, name: &str, content: &str) {
        std::fs::write(self.managed.join(name), content).unwrap();
    }

    /// The actions of the runs of a layer, the newest first.
    pub(super) fn actions(&self, layer: &str) -> Vec<String> {
        let runs = self.installation.runs(layer);
        runs.iter().map(|run| run["action"].as_str().unwrap().to_owned()).collect()
    }
}
