//! What is understood of files, and what is not.

use super::*;

/// What a file names: `M` begins in the directory of the module, `L` in that of the layer, `R` in the
/// repository; `?` if something is not understood, `!` if a program runs.
fn found(findings: &Findings) -> String {
    let start = |start: &Start| match start {
        Start::Module => "M".to_owned(),
        Start::Root => "L".to_owned(),
        Start::Repository => "R".to_owned(),
        Start::Parent(file) => format!("P({})", file.as_deref().unwrap_or_default()),
    };
    let role = |role: Role| match role {
        Role::Read => "",
        Role::Template => " (template)",
        Role::Module => " (module)",
    };
    let references = findings.references.iter();
    let references =
        references.map(|it| format!("{} {}{}", start(&it.start), it.path, role(it.role)));
    let unknown = findings.unknown.iter().map(|_| "?".to_owned());
    let program = findings.program.iter().map(|_| "!".to_owned());
    references.chain(unknown).chain(program).collect::<Vec<_>>().join(", ")
}

fn of(text: &str) -> String {
    found(&survey_files(&[("main.tf".to_owned(), text.to_owned())], false))
}

/// What an output with this expression names.
fn of_value(value: &str) -> String {
    of(&format!("output \"o\" {{\n  value = {value}\n}}\n"))
}

#[test]
fn literal_arguments_of_functions_are_understood() {
    for (value, expected) in [
        (r#"file("a.json")"#, "L a.json"),
        (r#"file("${path.module}/a.json")"#, "M /a.json"),
        (r#"file("${path.root}/../a.json")"#, "L /../a.json"),
        (r#"file("${path.cwd}/../a.json")"#, "L /../a.json"),
        (r#"core::file("../a.json")"#, "L ../a.json"),
        (r#"fileset(path.module, "../../conf/*.yaml")"#, "M /../../conf/"),
        (r#"fileset("${path.module}/../../conf", "**/*.yaml")"#, "M /../../conf/"),
        (r#"fileset("", "../x/*")"#, "L ../x/"),
        (r#"fileset("../x", "{a,b}/*.json")"#, "L ../x/"),
        (r#"templatefile("${path.module}/../a.tpl", { x = 1 })"#, "M /../a.tpl (template)"),
        (r#"filebase64sha256("../a.zip")"#, "L ../a.zip"),
        (r#"fileexists("../a") ? 1 : 2"#, "L ../a"),
        (r#"file(true ? "a" : "${path.root}/b")"#, "L /b, L a"),
        (r#"file(abspath("../a"))"#, "L ../a, M ../a"),
        (r#"file("\u002e\u002e/a")"#, "L ../a"),
        (r#"file(pathexpand("~/a"))"#, ""),
        (r#"file("/etc/hosts")"#, ""),
        (r#"[for f in fileset("../c", "*.json") : file("../c/${f}")]"#, "L ../c/"),
        (r#"{ for f in fileset("../c", "*") : f => file("../c/${basename(f)}") }"#, "L ../c/"),
        (r#"[for k in ["a", "b"] : filemd5("${path.module}/${k}.txt")]"#, "M /a.txt, M /b.txt"),
        (r#"file("${path.module}/${terraform.workspace}.json")"#, "M /"),
        (r"filesha1(data.archive_file.zip.output_path)", ""),
    ] {
        let names: Vec<&str> = expected.split(", ").collect();
        let found = of_value(value);
        assert_eq!(found.split(", ").collect::<Vec<_>>(), sorted(names), "{value}");
    }
}

fn sorted(mut names: Vec<&str>) -> Vec<&str> {
    // References are sorted by where they begin, and the module comes first.
    names.sort_by_key(|name| !name.starts_with('M'));
    names
}

#[test]
fn computed_paths_are_not_understood() {
    for value in [
        r#"fileset(var.directory, "*.yaml")"#,
        r"fileset(path.module, var.pattern)",
        r#"fileset(join("/", [path.module, "..", "conf"]), "*")"#,
        r#"fileset(format("%s/../conf", path.module), "*")"#,
        r#"fileset(replace(path.cwd, "envs/prod", "conf"), "*")"#,
        r#"fileset(dirname(path.cwd), "*")"#,
        r#"fileset(dirname(abspath(path.module)), "*")"#,
        r#"fileset(trimsuffix(abspath(path.root), "prod"), "*")"#,
        r#"fileset(base64decode("Li4vY29uZg=="), "*")"#,
        r#"fileset(strrev("fnoc/.."), "*")"#,
        r#"fileset(local.unknown, "*")"#,
        r#"fileset(module.a.directory, "*")"#,
        r#"fileset(terraform_data.a.output, "*")"#,
        r#"fileset(["../conf", "*"]...)"#,
        r#"file("${path.module}/${var.name}.json")"#,
        r#"file("${path.module}/${each.key}.json")"#,
        r#"file("${path.module}/%{ if var.a }../%{ endif }b")"#,
        r#"file(jsondecode(file("a.json")).path)"#,
        r#"templatefile(coalesce(var.template, "a.tpl"), {})"#,
        r"templatestring(local.template, {})",
        r"provider::local::direxists(var.directory)",
        r#"[for f in fileset(var.d, "*") : f]"#,
        r#"[for f in fileset("a", "../*") : file("x/${f}")]"#,
        r#"join("/", ["..", "conf"])"#,
        r#"join("/", concat(["..", ".."], ["conf"]))"#,
        r#"join("/", split("/", abspath(path.root)))"#,
        r#""${var.a}/../conf""#,
        r#""../conf/${var.a}.json""#,
        r#""${path.module}/files/${var.a}""#,
        "<<EOT\ncat ${var.a}/../b\nEOT\n",
    ] {
        assert!(of_value(value).ends_with('?'), "{value}: {}", of_value(value));
    }
}

#[test]
fn values_that_are_not_paths_name_nothing() {
    for value in [
        r#""${var.a}-${var.b}""#,
        r#""a..b""#,
        r#""~> 1.0""#,
        r#"join(",", var.names)"#,
        r#"format("%s-%s", var.a, basename(path.cwd))"#,
        r"{ (var.a) = var.b }",
        r#"replace(var.a, ".", "-")"#,
        r"aws_s3_bucket.a.arn",
    ] {
        assert_eq!(of_value(value), "", "{value}");
    }
}

#[test]
fn paths_in_other_values_are_found() {
    for (text, expected) in [
        (
            "data \"archive_file\" \"a\" {\n  source_dir = \"../src\"\n  output_path = \"${path.module}/${var.a}.zip\"\n}",
            "M ../src, L ../src",
        ),
        ("data \"archive_file\" \"a\" {\n  source_dir = var.source\n}", "?"),
        (
            "resource \"local_file\" \"a\" {\n  source = \"../a b.txt\"\n  filename = \"${path.module}/${var.a}\"\n}",
            "M ../a b.txt, L ../a b.txt",
        ),
        ("data \"local_file\" \"a\" {\n  filename = \"${path.module}/${var.a}\"\n}", "?"),
        (
            "resource \"aws_s3_object\" \"a\" {\n  for_each = fileset(\"../web\", \"**\")\n  source   = \"../web/${each.value}\"\n}",
            "M ../web/, L ../web/",
        ),
        ("resource \"aws_s3_object\" \"a\" {\n  source = aws_x.y.z\n}", ""),
        (
            "resource \"helm_release\" \"a\" {\n  chart  = \"../charts/a\"\n  values = [file(\"../v.yaml\")]\n}",
            "M ../charts/a, L ../charts/a, L ../v.yaml",
        ),
        (
            "resource \"x\" \"a\" {\n  provisioner \"local-exec\" {\n    command = \"cd ../t && ./run ${var.a}\"\n  }\n}",
            "M ../t, M ./run, L ../t, L ./run, !",
        ),
        (
            "resource \"x\" \"a\" {\n  provisioner \"file\" {\n    source = \"conf/${var.a}\"\n  }\n}",
            "?",
        ),
        (
            "data \"external\" \"a\" {\n  program = [\"python3\", \"../x.py\"]\n}",
            "M ../x.py, L ../x.py, ?",
        ),
        (
            "locals {\n  up = \"${path.module}/../..\"\n  a  = \"${local.up}/conf\"\n}\noutput \"o\" {\n  value = fileset(local.a, \"*\")\n}",
            "M /../../conf, M /../../conf/",
        ),
        (
            "locals {\n  files = { a = \"../x\" }\n}\noutput \"o\" {\n  value = file(local.files.a)\n}",
            "M ../x, L ../x",
        ),
        (
            "terraform {\n  encryption {\n    key_provider \"external\" \"a\" {\n      command = [\"./key\"]\n    }\n  }\n}",
            "M ./key, L ./key, ?",
        ),
        ("variable \"a\" {\n  default = \"../x\"\n}", "M ../x, L ../x"),
        ("output \"o\" {\n  value = file(", "?"),
    ] {
        let found = of(text);
        let found: std::collections::BTreeSet<&str> = found.split(", ").collect();
        assert_eq!(found, expected.split(", ").collect(), "{text}");
    }
}

#[test]
fn sources_of_modules_are_followed_if_they_are_known() {
    for (source, expected) in [
        (r#""../../modules/a""#, "M ../../modules/a (module)"),
        (r#""./a""#, "M ./a (module)"),
        (r#""hashicorp/consul/aws""#, ""),
        (r#""git::https://example.com/a.git?ref=${var.version}""#, ""),
        (r#""./modules/${local.kind}""#, "M ./modules/x (module)"),
        (r#""./modules/${var.kind}""#, "?"),
        ("var.source", "?"),
    ] {
        let text =
            format!("locals {{\n  kind = \"x\"\n}}\nmodule \"a\" {{\n  source = {source}\n}}\n");
        assert_eq!(of(&text), expected, "{source}");
    }
}

#[test]
fn files_in_json_syntax_mean_the_same() {
    for (text, expected) in [
        (r#"{"module": {"a": {"source": "./a"}}}"#, "M ./a (module)"),
        (r#"{"output": {"o": {"value": "${file(\"../a\")}"}}}"#, "L ../a"),
        (r#"{"output": [{"o": [{"value": "${fileset(var.d, \"*\")}"}]}]}"#, "?"),
        (
            r#"{"locals": {"a": "${path.module}/../b"}, "output": {"o": {"value": "x${file(local.a)}"}}}"#,
            "M /../b",
        ),
        (
            r#"{"output": {"o": {"value": 1}}, "output": {"p": {"value": "\u002e./b"}}}"#,
            "M ../b, L ../b",
        ),
        (
            r#"{"resource": {"x": {"a": {"provisioner": {"local-exec": {"command": "make"}}}}}}"#,
            "!",
        ),
        (r#"{"data": {"external": {"a": {"program": ["x"]}}}}"#, "?"),
        (r#"{"output": {"o": {"value": "${file("}}}"#, "?"),
        (r#"{"data": {"archive_file": {"a": {"source_dir": "${var.a}"}}}}"#, "?"),
        ("{ \"source", "?"),
    ] {
        let files = [("main.tf.json".to_owned(), text.to_owned())];
        assert_eq!(found(&survey_files(&files, false)), expected, "{text}");
    }
}

#[test]
fn locals_are_those_of_all_files() {
    let files = |second: &str| {
        let texts = ["output \"o\" {\n  value = fileset(local.a, \"*\")\n}\n", second];
        let files =
            texts.iter().enumerate().map(|(at, text)| (format!("{at}.tf"), (*text).to_owned()));
        found(&survey_files(&files.collect::<Vec<_>>(), false))
    };
    assert_eq!(files("locals {\n  a = \"b\"\n}\n"), "L b/");
    assert_eq!(files("locals {\n  a = local.a\n}\n"), "?");
    // An override file can replace one.
    assert_eq!(files("locals {\n  a = \"b\"\n}\nlocals {\n  a = \"c\"\n}\n"), "?");
    assert_eq!(files("locals {\n  a = \"../${var.x}\"\n}\n"), "?");
}

#[test]
fn templates_can_read_files() {
    for (text, expected) in [
        ("hello ${name}, ../a", ""),
        ("${file(\"../a\")}", "L ../a"),
        ("%{ for f in fileset(\"../a\", \"*\") }${f}%{ endfor }", "L ../a/"),
        ("%{ if true }${file(x)}%{ endif }", "?"),
        ("file: ${", "?"),
    ] {
        assert_eq!(found(&survey_file("a.tpl", text)), expected, "{text}");
    }
}

#[test]
fn values_of_variables_can_be_paths() {
    let none = [];
    let given = ["../a", "b", "x ../c.tfvars"];
    let expected = "M ../a, M ../c.tfvars, M x ../c.tfvars, L ../a, L ../c.tfvars, L x ../c.tfvars";
    assert_eq!(found(&survey_values(given, &none)), expected);
    for (name, text, expected) in [
        ("a.tfvars", "a = [\"../b\"]\n", "M ../b, L ../b"),
        ("a.tfvars.json", r#"{"a": {"b": "../b"}}"#, "M ../b, L ../b"),
        ("a.tfvars.json", r#"{"a": "${"}"#, ""),
        ("a.tfvars", "a = \"../b", "?"),
    ] {
        let files = [(name.to_owned(), text.to_owned())];
        assert_eq!(found(&survey_values([], &files)), expected, "{text}");
    }
}

#[test]
fn functions_of_terragrunt_are_understood() {
    for (text, expected) in [
        (
            "terraform {\n  source = \"${get_repo_root()}//modules/vpc\"\n}",
            "R //modules/vpc (module)",
        ),
        (
            "terraform {\n  source = \"../modules/vpc\"\n}",
            "M ../modules/vpc (module), L ../modules/vpc (module)",
        ),
        (
            "include \"a\" {\n  path = find_in_parent_folders(\"root.hcl\")\n}",
            "P(root.hcl) /root.hcl",
        ),
        ("include \"a\" {\n  path = find_in_parent_folders()\n}", ""),
        (
            "include \"a\" {\n  path = \"${dirname(find_in_parent_folders(\"env.hcl\"))}/_c/v.hcl\"\n}",
            "P(env.hcl) /_c/v.hcl, P(env.hcl) /env.hcl",
        ),
        ("inputs = {\n  a = file(\"${get_terragrunt_dir()}/../a.json\")\n}", "L /../a.json"),
        (
            "inputs = {\n  a = file(\"${dirname(find_in_parent_folders())}/b.json\")\n}",
            "P() /b.json",
        ),
        (
            "inputs = {\n  a = yamldecode(file(find_in_parent_folders(\"c.yaml\")))\n}",
            "P(c.yaml) /c.yaml",
        ),
        (
            "locals {\n  a = read_terragrunt_config(\"${get_parent_terragrunt_dir()}/x.hcl\")\n}",
            "P() /x.hcl",
        ),
        ("locals {\n  a = sops_decrypt_file(local.b)\n}", "?"),
        ("locals {\n  a = run_cmd(\"./x.sh\")\n}", "?"),
        ("inputs = {\n  a = file(\"${get_terragrunt_dir()}/${get_env(\"A\")}\")\n}", "?"),
        ("inputs = {\n  a = file(find_in_parent_folders(local.name))\n}", "?"),
        ("dependency \"a\" {\n  config_path = \"../vpc\"\n}", "M ../vpc, L ../vpc"),
        ("terraform {\n  before_hook \"a\" {\n    execute = [\"make\"]\n  }\n}", "?"),
        ("remote_state {\n  config = {\n    key = \"${path_relative_to_include()}/a\"\n  }\n}", ""),
    ] {
        let files = [("terragrunt.hcl".to_owned(), text.to_owned())];
        assert_eq!(found(&survey_files(&files, true)), expected, "{text}");
    }
}

#[test]
fn cause_has_the_line() {
    let text = "\n\noutput \"o\" {\n  value = file(var.a)\n}\n";
    let findings = survey_files(&[("main.tf".to_owned(), text.to_owned())], false);
    let cause = findings.unknown.unwrap();
    assert_eq!((cause.file.as_str(), cause.line), ("main.tf", Some(4)));
    assert_eq!(cause.what, "`file` reads a path that is computed");
}
