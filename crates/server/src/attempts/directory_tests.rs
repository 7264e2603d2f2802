use super::*;

#[test]
fn directory_that_was_tidied_in_part_is_not_tidy() {
    let root = tempfile::tempdir().unwrap();
    let directory = AttemptDirectory::at(root.path());
    let is_tidied = || {
        assert!(!directory.is_tidy());
        directory.tidy().unwrap();
        directory.is_tidy()
    };
    fs::create_dir_all(directory.home()).unwrap();
    assert!(is_tidied());
    fs::write(directory.token(), "token").unwrap();
    assert!(is_tidied());
    let temporary = directory.create_temporary(root.path(), DataAccess::Server).unwrap();
    fs::write(temporary.join("file"), "").unwrap();
    assert!(is_tidied() && !temporary.exists());
    // The system has removed it.
    fs::remove_dir(directory.create_temporary(root.path(), DataAccess::Server).unwrap()).unwrap();
    assert!(is_tidied());
}

#[test]
fn temporary_directory_is_private_and_in_no_directory_of_the_attempt() {
    let root = tempfile::tempdir().unwrap();
    let directory = AttemptDirectory::at(&root.path().join("attempt"));
    directory.create(DataAccess::Server).unwrap();
    let parent = root.path().join("tmp");
    let temporary = directory.create_temporary(&parent, DataAccess::Server).unwrap();
    assert_eq!(temporary.parent(), Some(&*parent));
    assert_eq!(fs::metadata(&temporary).unwrap().mode() & 0o777, 0o700);
    assert_eq!(directory.temporary(), Some(temporary.clone()));
    // An old attempt is removed with it.
    AttemptDirectory::remove(directory.path()).unwrap();
    assert!(!temporary.exists() && !directory.path().exists());
}

#[test]
fn directory_of_another_user_is_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let directory = AttemptDirectory::at(root.path());
    let other = root.path().join("other");
    fs::create_dir(&other).unwrap();
    if user() == 0 {
        std::os::unix::fs::chown(&other, Some(65534), None).unwrap();
    } else {
        fs::remove_dir(&other).unwrap();
        std::os::unix::fs::symlink("/etc", &other).unwrap();
    }
    fs::write(directory.temporary_record(), other.to_str().unwrap()).unwrap();
    directory.tidy().unwrap();
    assert!(other.exists() && directory.is_tidy());
}
