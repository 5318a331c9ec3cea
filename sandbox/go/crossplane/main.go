// Crossplane as a process on one machine: its own core commands, with every listener on loopback and a shorter wait
// between deletions.
//
// The upstream program binds its metrics, probes and webhooks to all addresses and has no option for that.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/alecthomas/kong"
	admv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/crossplane/crossplane-runtime/v2/pkg/logging"
	"github.com/crossplane/crossplane/apis/v2"
	protection "github.com/crossplane/crossplane/apis/v2/protection/v1beta1"
	"github.com/crossplane/crossplane/v2/cmd/crossplane/core"
)

const loopback = "127.0.0.1"

func main() {
	ctrl.NewManager = onLoopback
	log := zap.New().WithName("crossplane")
	ctrl.SetLogger(zap.New(zap.WriteTo(io.Discard))) // controller-runtime's own log says little that Crossplane's does not
	logging.SetFilteredKlogLogger(log)

	var cli struct {
		Core core.Command `cmd:"" help:"Crossplane's core controllers."`
	}
	run := kong.Parse(&cli, kong.Name("crossplane"), kong.UsageOnError(), core.KongVars,
		kong.BindTo(logging.NewLogrLogger(log), (*logging.Logger)(nil)))
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		admv1.AddToScheme, appsv1.AddToScheme, authv1.AddToScheme, coordinationv1.AddToScheme,
		corev1.AddToScheme, rbacv1.AddToScheme, extv1.AddToScheme, apis.AddToScheme,
	} {
		run.FatalIfErrorf(add(scheme))
	}
	run.FatalIfErrorf(run.Run(scheme))
}

// onLoopback makes the manager that Crossplane asked for, with its listeners moved to loopback.
func onLoopback(config *rest.Config, options manager.Options) (manager.Manager, error) {
	options.Metrics.BindAddress = local(options.Metrics.BindAddress)
	options.HealthProbeBindAddress = local(options.HealthProbeBindAddress)
	if server, ok := options.WebhookServer.(*webhook.DefaultServer); ok {
		server.Options.Host = loopback
	}
	mgr, err := manager.New(config, options)
	if err != nil {
		return nil, err
	}
	return mgr, mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		wait.UntilWithContext(ctx, func(ctx context.Context) { hastenUsages(ctx, mgr.GetClient()) }, time.Second)
		return nil
	}))
}

// hastenUsages makes Crossplane look again at a Usage that is being deleted once its using resource is gone. By itself
// it looks every 30 s, and a serving stack is a chain of three such waits. Any change of a Usage makes it look at once.
func hastenUsages(ctx context.Context, kube client.Client) {
	usages := &protection.UsageList{}
	if kube.List(ctx, usages) != nil {
		return // not served yet, or the API server is away: the next second will tell
	}
	for i := range usages.Items {
		usage := &usages.Items[i]
		if usage.DeletionTimestamp == nil || usage.Spec.By == nil || usage.Spec.By.ResourceRef == nil {
			continue
		}
		// Metadata is read from a cache: looking costs nothing.
		using := &metav1.PartialObjectMetadata{}
		using.SetGroupVersionKind(schema.FromAPIVersionAndKind(usage.Spec.By.APIVersion, usage.Spec.By.Kind))
		key := client.ObjectKey{Namespace: usage.Namespace, Name: usage.Spec.By.ResourceRef.Name}
		if apierrors.IsNotFound(kube.Get(ctx, key, using)) {
			_ = kube.Patch(ctx, usage, client.RawPatch(types.MergePatchType, fmt.Appendf(nil,
				`{"metadata":{"annotations":{"sandbox/looked-again":%q}}}`, time.Now().UTC().Format(time.RFC3339))))
		}
	}
}

func local(address string) string {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return address // "0": switched off
	}
	return net.JoinHostPort(loopback, port)
}
