//! Protos to Rust, by a compiler that is itself a crate: no protoc is needed on the machine.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    #[cfg(feature = "grpc")]
    protos::generate()?;
    Ok(())
}

#[cfg(feature = "grpc")]
mod protos {
    use std::error::Error;
    use std::path::{Path, PathBuf};
    use std::{env, fs};

    use prost::Message as _;

    const PACKAGE: &str = "unified_exec/v1";

    pub(super) fn generate() -> Result<(), Box<dyn Error>> {
        let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("proto");
        let mut compiler = protox::Compiler::new([&root])?;
        compiler.include_source_info(true).include_imports(true);
        compiler.open_files(files(&root)?)?;
        let descriptors = compiler.file_descriptor_set();
        let out = PathBuf::from(env::var("OUT_DIR")?);
        // For reflection.
        fs::write(out.join("unified_exec.binpb"), descriptors.encode_to_vec())?;
        tonic_prost_build::configure()
            .bytes(".unified_exec.v1")
            .codec_path("crate::grpc::codec::Codec")
            .compile_fds(descriptors)?;
        Ok(())
    }

    fn files(root: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
        let mut files: Vec<PathBuf> = fs::read_dir(root.join(PACKAGE))?
            .map(|entry| entry.map(|entry| Path::new(PACKAGE).join(entry.file_name())))
            .collect::<Result<_, _>>()?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "proto"));
        files.sort();
        Ok(files)
    }
}
