//! Parses the Dockerfile and executes its instructions. Unknown instructions are errors.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::root::{Root, copy_build_context};

/// The lines of a Dockerfile with the arguments of its build.
pub(crate) struct Recipe {
    lines: Vec<(String, String)>,
    arguments: BTreeMap<String, String>,
    lent: BTreeMap<String, String>,
    lent_files: BTreeMap<String, Vec<u8>>,
}

/// The result of a stage.
pub(crate) struct Image {
    pub(crate) root: Root,
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) user: String,
    pub(crate) directory: String,
    pub(crate) entrypoint: Vec<String>,
    arguments: BTreeMap<String, String>,
    name: String,
}

impl Recipe {
    pub(crate) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let text = text.replace("\\\n", " ");
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let lines = lines.filter(|line| !line.starts_with('#')).map(|line| {
            let (word, rest) = line.split_once(' ').expect("an instruction has arguments");
            (word.to_owned(), rest.trim().to_owned())
        });
        let (arguments, lent, lent_files) = Default::default();
        Self { lines: lines.collect(), arguments, lent, lent_files }
    }

    /// `--build-arg`.
    pub(crate) fn argument(&mut self, name: &str, value: &str) {
        self.arguments.insert(name.to_owned(), value.to_owned());
    }

    /// Sets a variable for the build, but not in the image.
    pub(crate) fn lend(&mut self, name: &str, value: &str) {
        self.lent.insert(name.to_owned(), value.to_owned());
    }

    /// Provides a file for the build, but not in the image.
    pub(crate) fn lend_file(&mut self, path: &str, content: &[u8]) {
        self.lent_files.insert(path.to_owned(), content.to_owned());
    }

    /// The base images of the stages.
    pub(crate) fn bases(&self) -> Vec<&str> {
        let froms = self.lines.iter().filter(|(word, _)| word == "FROM");
        froms.map(|(_, rest)| rest.split(' ').next().unwrap()).collect()
    }

    /// Executes all lines with the files in `context`. Returns the last stage.
    pub(crate) fn build(&self, context: &Path) -> Image {
        let mut stages: Vec<Image> = Vec::new();
        for (word, rest) in &self.lines {
            let _ = writeln!(std::io::stderr(), "{word} {rest}");
            if word == "FROM" {
                stages.push(Image::from(rest));
                continue;
            }
            let (image, before) = stages.split_last_mut().expect("it begins with FROM");
            match word.as_str() {
                "ARG" => image.declare(rest, &self.arguments),
                "ENV" => image.variables.extend(pairs(&image.expand(rest))),
                "LABEL" => image.labels.extend(pairs(&image.expand(rest))),
                "USER" => image.user.clone_from(rest),
                "WORKDIR" => {
                    image.directory.clone_from(rest);
                    std::fs::create_dir_all(image.root.inside(rest)).unwrap();
                }
                "ENTRYPOINT" => image.entrypoint = serde_json::from_str(rest).unwrap(),
                "COPY" => image.copy(rest, before, context),
                "RUN" => self.run(image, rest, context),
                _ => panic!("`{word}` is not known here"),
            }
        }
        stages.pop().unwrap()
    }

    fn run(&self, image: &Image, line: &str, context: &Path) {
        for (path, content) in &self.lent_files {
            std::fs::write(image.root.inside(path), content).unwrap();
        }
        let mut command = image.root.build_command(&image.directory, line, context);
        command.envs(&image.variables).envs(&image.arguments).envs(&self.lent);
        let status = command.status().unwrap();
        assert!(status.success(), "{status}: {line}");
        for path in self.lent_files.keys() {
            std::fs::remove_file(image.root.inside(path)).unwrap();
        }
    }
}

impl Image {
    fn from(rest: &str) -> Self {
        let words: Vec<_> = rest.split(' ').collect();
        let (base, name) = match words[..] {
            [base] => (base, ""),
            [base, "AS", name] => (base, name),
            _ => panic!("`FROM {rest}` is not known here"),
        };
        let root = Root::of(base);
        let variables = root.variables();
        let (labels, arguments, entrypoint) = Default::default();
        let (user, directory) = ("0:0".to_owned(), "/".to_owned());
        let name = name.to_owned();
        Self { root, variables, labels, user, directory, entrypoint, arguments, name }
    }

    fn declare(&mut self, rest: &str, given: &BTreeMap<String, String>) {
        let (name, default) = match rest.split_once('=') {
            Some((name, default)) => (name, Some(default.to_owned())),
            None => (rest, None),
        };
        if let Some(value) = given.get(name).cloned().or(default) {
            self.arguments.insert(name.to_owned(), value);
        }
    }

    /// Replaces `${NAME}` by its declared value. Panics on undeclared names.
    fn expand(&self, text: &str) -> String {
        let mut expanded = text.to_owned();
        for (name, value) in self.arguments.iter().chain(&self.variables) {
            expanded = expanded.replace(&format!("${{{name}}}"), value);
        }
        assert!(!expanded.contains('$'), "not declared: {expanded}");
        expanded
    }

    fn copy(&mut self, rest: &str, before: &[Self], context: &Path) {
        let mut words: Vec<_> = rest.split_whitespace().collect();
        let mode = words[0]
            .strip_prefix("--chmod=")
            .map(|mode| std::fs::Permissions::from_mode(u32::from_str_radix(mode, 8).unwrap()));
        if mode.is_some() {
            words.remove(0);
        }
        let stage = words[0].strip_prefix("--from=").map(|name| {
            before.iter().find(|stage| stage.name == name).expect("the stage is there")
        });
        if stage.is_some() {
            words.remove(0);
        }
        let (to, from) = words.split_last().unwrap();
        let to = self.root.inside(&Path::new(&self.directory).join(to).to_string_lossy());
        for from in from {
            match stage {
                Some(stage) => {
                    std::fs::copy(stage.root.inside(from), &to).unwrap();
                }
                None if *from == "." => copy_build_context(context, &to),
                None => {
                    std::fs::copy(context.join(from), &to).unwrap();
                }
            }
            if let Some(mode) = mode.clone() {
                std::fs::set_permissions(&to, mode).unwrap();
            }
        }
    }
}

/// `name=value name="another value"`.
fn pairs(text: &str) -> Vec<(String, String)> {
    let mut rest = text.trim();
    let mut pairs = Vec::new();
    while let Some((name, after)) = rest.split_once('=') {
        let (value, after) = match after.strip_prefix('"') {
            Some(after) => after.split_once('"').expect("the quote ends"),
            None => after.split_once(char::is_whitespace).unwrap_or((after, "")),
        };
        pairs.push((name.to_owned(), value.to_owned()));
        rest = after.trim_start();
    }
    pairs
}
