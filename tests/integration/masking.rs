//! No secret of a module that prints them in every way gets out.
