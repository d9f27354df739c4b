fn main() {
    tonic_prost_build::configure()
        .bytes(".")
        .compile_protos(&["proto/bench.proto"], &["proto"])
        .expect("protoc (apt install protobuf-compiler)");
    // the service's own contract
    let root = "../../../proto";
    let files: Vec<_> = std::fs::read_dir(format!("{root}/unified_exec/v1"))
        .expect("the contract beside us")
        .map(|f| f.expect("readable").path())
        .filter(|f| f.extension().is_some_and(|e| e == "proto"))
        .collect();
    tonic_prost_build::configure()
        .bytes(".unified_exec.v1")
        .compile_protos(&files, &[root.into()])
        .expect("the contract compiles");
}
