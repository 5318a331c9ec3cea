// provider-kubernetes as a process on one machine: its controllers of namespaced kinds, with every listener on loopback
// and deletions that do not wait for a backoff.
//
// The upstream program binds its metrics and its conversion webhook to all addresses and has no option for that. The
// webhook converts the legacy cluster-scoped Object, which is not installed here. This module's path lies below the
// provider's, which is how Go lets it import the provider's internal packages.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/alecthomas/kingpin/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/crossplane/crossplane-runtime/v2/pkg/controller"
	"github.com/crossplane/crossplane-runtime/v2/pkg/feature"
	"github.com/crossplane/crossplane-runtime/v2/pkg/gate"
	"github.com/crossplane/crossplane-runtime/v2/pkg/logging"
	"github.com/crossplane/crossplane-runtime/v2/pkg/ratelimiter"
	"github.com/crossplane/crossplane-runtime/v2/pkg/reconciler/customresourcesgate"
	"github.com/crossplane/crossplane-runtime/v2/pkg/reconciler/managed"
	"github.com/crossplane/crossplane-runtime/v2/pkg/statemetrics"

	apis "github.com/crossplane-contrib/provider-kubernetes/apis/namespaced"
	objects "github.com/crossplane-contrib/provider-kubernetes/apis/namespaced/object/v1alpha1"
	options "github.com/crossplane-contrib/provider-kubernetes/internal/controller"
	namespaced "github.com/crossplane-contrib/provider-kubernetes/internal/controller/namespaced"
	"github.com/crossplane-contrib/provider-kubernetes/internal/features"
)

const rate = 100 // concurrent reconciles, upstream's default

func main() {
	poll := flag.Duration("poll", 10*time.Minute, "how often an object is compared with the other cluster")
	metrics := flag.String("metrics", "127.0.0.1:0", "address of /metrics")
	health := flag.String("health", "127.0.0.1:0", "address of /readyz")
	flag.Parse()

	ctrl.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	log := logging.NewLogrLogger(zap.New().WithName("provider-kubernetes"))
	config, err := ctrl.GetConfig()
	kingpin.FatalIfError(err, "cannot read the kubeconfig")
	mgr, err := ctrl.NewManager(ratelimiter.LimitRESTConfig(config, rate), ctrl.Options{
		Metrics:                metricsserver.Options{BindAddress: *metrics},
		HealthProbeBindAddress: *health,
	})
	kingpin.FatalIfError(err, "cannot create the controller manager")
	kingpin.FatalIfError(mgr.AddReadyzCheck("ping", healthz.Ping), "cannot add the probe")
	kingpin.FatalIfError(apis.AddToScheme(mgr.GetScheme()), "cannot register the provider's kinds")
	kingpin.FatalIfError(apiextensionsv1.AddToScheme(mgr.GetScheme()), "cannot register CustomResourceDefinition")

	o := controller.Options{
		Logger:                  log,
		MaxConcurrentReconciles: rate,
		PollInterval:            *poll,
		GlobalRateLimiter:       ratelimiter.NewGlobal(rate),
		Features:                &feature.Flags{},
		Gate:                    new(gate.Gate[schema.GroupVersionKind]),
		MetricOptions: &controller.MetricOptions{
			PollStateMetricInterval: time.Minute,
			MRMetrics:               managed.NewMRMetricRecorder(),
			MRStateMetrics:          statemetrics.NewMRStateMetrics(),
		},
	}
	o.Features.Enable(feature.EnableBetaManagementPolicies)
	o.Features.Enable(features.EnableBetaServerSideApply)
	o.Features.Enable(features.EnableAlphaWatches)
	// Controllers start when the CRDs of their kinds are there.
	gated := controller.Options{Gate: o.Gate, Logger: log, MaxConcurrentReconciles: 1}
	kingpin.FatalIfError(customresourcesgate.Setup(mgr, gated), "cannot watch CustomResourceDefinitions")
	kingpin.FatalIfError(namespaced.SetupGated(mgr, o, options.Options{}), "cannot set up the controllers")
	kingpin.FatalIfError(mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		wait.UntilWithContext(ctx, func(ctx context.Context) { hastenDeletions(ctx, mgr.GetClient()) }, time.Second)
		return nil
	})), "cannot add the watch over deletions")
	kingpin.FatalIfError(mgr.Start(ctrl.SetupSignalHandler()), "the controller manager ended")
}

// hastenDeletions makes the provider look again at an Object that only waits for it to be deleted. While another
// finalizer is there (foreground deletion adds one) the provider looks less and less often, and it does not see that
// finalizer go. A changed annotation it sees at once.
func hastenDeletions(ctx context.Context, kube client.Client) {
	list := &objects.ObjectList{}
	if kube.List(ctx, list) != nil {
		return // not served yet, or the API server is away: the next second will tell
	}
	for i := range list.Items {
		object := &list.Items[i]
		if object.DeletionTimestamp != nil && len(object.Finalizers) == 1 {
			_ = kube.Patch(ctx, object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil,
				`{"metadata":{"annotations":{"sandbox/looked-again":%q}}}`, time.Now().UTC().Format(time.RFC3339))))
		}
	}
}
