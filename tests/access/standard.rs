//! What every gRPC client and prober expects of a server: health and reflection.

use std::collections::BTreeSet;

use prost::Message as _;
use tokio_stream::StreamExt as _;
use tonic::Code;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::{v1, v1alpha};

use crate::support::{agent, assert_status, bearer, edge, on_tcp, plain};

const OWN: [&str; 4] = [
    "unified_exec.v1.ApprovalService",
    "unified_exec.v1.EnvironmentService",
    "unified_exec.v1.ExecService",
    "unified_exec.v1.SessionService",
];

async fn ask_v1(
    channel: Channel,
    question: v1::server_reflection_request::MessageRequest,
) -> v1::ServerReflectionResponse {
    let request = v1::ServerReflectionRequest { host: String::new(), message_request: Some(question) };
    let mut client = v1::server_reflection_client::ServerReflectionClient::new(channel);
    let answers = client.server_reflection_info(tokio_stream::once(request)).await.unwrap();
    answers.into_inner().next().await.unwrap().unwrap()
}

#[tokio::test]
async fn reflection_lists_what_is_offered_in_both_versions() {
    let edge = edge();
    let mut expected: BTreeSet<String> = OWN.map(str::to_owned).into();
    expected.insert("grpc.health.v1.Health".into());
    expected.insert("grpc.reflection.v1.ServerReflection".into());
    expected.insert("grpc.reflection.v1alpha.ServerReflection".into());

    let channel = edge.channel(agent("me"));
    let list = v1::server_reflection_request::MessageRequest::ListServices(String::new());
    let answer = ask_v1(channel.clone(), list).await.message_response.unwrap();
    let v1::server_reflection_response::MessageResponse::ListServicesResponse(listed) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(listed.service.into_iter().map(|service| service.name).collect::<BTreeSet<_>>(), expected);

    let list = v1alpha::server_reflection_request::MessageRequest::ListServices(String::new());
    let request = v1alpha::ServerReflectionRequest { host: String::new(), message_request: Some(list) };
    let mut client = v1alpha::server_reflection_client::ServerReflectionClient::new(channel);
    let mut answers = client.server_reflection_info(tokio_stream::once(request)).await.unwrap().into_inner();
    let answer = answers.next().await.unwrap().unwrap().message_response.unwrap();
    let v1alpha::server_reflection_response::MessageResponse::ListServicesResponse(listed) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(listed.service.into_iter().map(|service| service.name).collect::<BTreeSet<_>>(), expected);
}

#[tokio::test]
async fn reflection_describes_our_messages_error_details_and_itself() {
    let edge = edge();
    for symbol in [
        "unified_exec.v1.ExecService.ExecCommand",
        "unified_exec.v1.ErrorReason",
        "google.rpc.ErrorInfo",
        "google.rpc.Status",
        "google.protobuf.FieldMask",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    ] {
        let question = v1::server_reflection_request::MessageRequest::FileContainingSymbol(symbol.into());
        let answer = ask_v1(edge.channel(agent("me")), question).await.message_response.unwrap();
        let v1::server_reflection_response::MessageResponse::FileDescriptorResponse(files) = answer else {
            panic!("{symbol}: {answer:?}")
        };
        let file =
            prost_types::FileDescriptorProto::decode(files.file_descriptor_proto[0].as_slice()).unwrap();
        assert!(symbol.starts_with(file.package()), "{symbol} in {}", file.package());
    }
}

#[tokio::test]
async fn health_needs_no_token_and_reflection_does() {
    let edge = edge();
    let channel = plain(on_tcp(&edge).await);
    let mut health = HealthClient::new(channel.clone());
    for service in OWN.into_iter().chain([""]) {
        let answer = health.check(HealthCheckRequest { service: service.into() }).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
    }
    let unknown = health.check(HealthCheckRequest { service: "no.such.Service".into() }).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    let mut watch =
        health.watch(HealthCheckRequest { service: "no.such.Service".into() }).await.unwrap().into_inner();
    assert_eq!(watch.next().await.unwrap().unwrap().status(), ServingStatus::ServiceUnknown);

    let list = v1::server_reflection_request::MessageRequest::ListServices(String::new());
    let request = v1::ServerReflectionRequest { host: String::new(), message_request: Some(list) };
    let mut client = v1::server_reflection_client::ServerReflectionClient::new(channel);
    let refused = client.server_reflection_info(tokio_stream::once(request.clone())).await.map(|_| ());
    assert_status(refused, Code::Unauthenticated, "CREDENTIAL_REFUSED");
    client.server_reflection_info(bearer(tokio_stream::once(request), "a")).await.unwrap();
}
